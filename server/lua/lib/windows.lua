-- L1: how much a dimension lets go now, by window model. p: the dimension's policy, s: its state; nothing else is read but
-- the ring of sliding windows. `advance` also adds to s.net what came free (of windows that begin anew: nothing). Each model has
--   derive(p)                     fills in what depends on the policy alone: hold (part of the depth that is kept back for better
--                                 places), horizon_s (how far ahead it is kept), ...
--   fresh(p, s)                   fills in a state in which nothing was taken yet
--   advance(p, s, state)          to the state's time
--   avail(p, s, c, out_of_turn)   units that may go now; c: the cost asked for, out_of_turn: others come first
--   books(p, s)                   units that are left by what was charged, whatever spreads them
--   wait(p, s, need)              seconds until `need` units may go, if nobody else takes any
--   debit(p, s, c, serial)        takes c, answers the mark that a later refund needs
--   adjust(p, s, mark, x)         charges x more (negative: refunds) as if it had been charged at the mark; answers what was done
--   gain(p, s, tau)               units that come free within tau seconds
--   counts(p, s, mark)            whether a debit of that mark is in the books
--   period(p, s, at_us)           number of the window's time that a grant belongs to; `edges`: nothing of it outlives that
-- and some of them
--   free(p, s, state)             units that may go now, for who only looks: the state was not advanced
--   resize, renumber              the limit or the length of windows has changed
--   learn, doubt, phase           see fixed_learnt.lua
return {continuous = require('continuous'), fixed = require('fixed'), sliding = require('sliding'),
  fixed_learnt = require('fixed_learnt')}
