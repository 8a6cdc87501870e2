"""Every constant of the decision, named by its meaning. Seconds and microseconds as the suffix says; shares are parts of 1."""

# Clocks and tags
EPOCH_TAG_S = 1000.0         # first virtual time; leaves room for credit below it

# Windows
FIXED_GUARD_S = 0.003        # part of a fixed window's end that is not used ...
FIXED_GUARD_PART = 1 / 20    # ... at most this part of the window
SLOTS = 200                  # slots of a sliding window; a slot leaves SLOTS + 1 slots after it began
HISTORY_MAX = 8              # kept points of least headroom of a continuous bucket
SPREAD_BANK = 0.25           # part of a fixed window's lead that callers out of turn must leave
SMOOTH_BANK = 0.35           # part of the smoothing bucket that callers out of turn must leave
HOLD_CONTINUOUS = 0.5        # part of the depth that is kept back at most for places past their time, by window model
HOLD_COUNTED = 0.03
HORIZON_MAX_S = 2.0          # how far ahead of now the reserve looks
HORIZON_WINDOW_PART = 0.1    # for counted windows

# Turn order
LOOK = 8                     # due places looked at per decision
LOOK_BIG = 4                 # ... and big ones whose turn is further off, up to a window ahead
BIG = 0.1                    # a call that takes more of a dimension's depth is saved for from a window ahead
GRACE_MIN_US = 250_000       # a place is given up after clip(3 deviations of lateness, min, max) past its time
GRACE_MAX_US = 3_000_000
GRACE_DEVIATIONS = 3
DOVETAIL_S = 1.0             # how far an idle dimension's tag may lag behind the dominant one
BANK = 0.25                  # part of the hold that callers out of turn must leave
OUT_OF_TURN_MIN_S = 0.2      # further from its turn than this (or two mean shares) a caller is out of turn
PULSE_MIN_S = 0.1            # bounds of the lag that unequal tags of heads add to a forecast
PULSE_MAX_S = 0.5
SPARE_S = 0.05               # most that a place waits longer for the siblings before it
OTHER_CLASS_S = 0.05         # what one call of another class may add to a forecast
SIGMA_MIN = 1e-9             # least dominant share of a call
TIE = 1e-12                  # virtual times closer than this are equal

# Learning
RATIO_MIN, RATIO_MAX = 0.01, 1e4   # bounds of actual / estimate
FLOW_GAIN = 0.05             # EWMA gains: a flow's ratio and variance, the target's prior, mean share, profile, lateness
PRIOR_GAIN = 0.02
MEAN_SIGMA_GAIN = 0.02
PROFILE_GAIN = 0.2
LATE_GAIN = 0.1
LATE_MAX_US = 5_000_000
DEVIATION_FIRST_US = 50_000
SYNC_DEVIATIONS = 3.0        # by how much the books may be above what the provider says is left: noise in flight ...
SYNC_DEPTH_PART = 0.05       # ... and a part of the depth
SYNC_NOISE_MIN = 1e-12       # variance below this part of the depth's square is rounding
PROOF_GAIN = 0.1             # a refused estimate that would have fitted moves this part of the way ...
PROOF_ABOVE = 1.1            # ... to so much of what was left ...
PROOF_LEFT = 0.25            # ... unless that was more than this part of the limit
REPORTS_MIN, REPORTS_MAX = 8, 64  # consistent reset times until a phase is known; twice as many after each that was wrong
REPORTS_SPAN = 2             # windows that they must span
REPORT_PART = 0.5            # part of a window that a report may be unsure of
UNSURE_PART = 0.25           # ... and a known phase
RESET_OFF_US = 1_000         # how far a reset time may be off; a whole number of seconds is taken for a rounded one
RESET_WHOLE_OFF_US = 1_000_000
DRIFT = 1e-4                 # between two clocks
MARGIN_Z = 1.25              # standard deviations of estimates in flight that L1 keeps as headroom

# Forecasts
DEFER_MIN_US = 1000
RESERVE_WAIT_MAX_S = 1.0     # what the reserve for better places may add to a wait
CAP_TOLERANCE = 1e-9         # relative: sums of floating-point costs are not exact

# Housekeeping
REAPED_MAX = 4               # leases and ids that have had their time, per decision
LINGER_US = 250_000          # a flow that was served within this time is active
RETIRED_MAX = 2              # active flows that are looked at (and idle ones that are forgotten), per decision
FLOW_LIFE_US = 3_600_000_000
RETRY_MAX_US = 86_400_000_000

# Discipline buckets
ACTIVE_US = 2_000_000        # a flow that asked within this time is active
INACTIVE_MAX = 16            # flows that become inactive, per class and decision
