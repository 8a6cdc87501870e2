/** What deferred activities and their workflows tell each other; the same in every language. */

/** `ApplicationFailure.type` of a deferral: seen in histories, and by workflows only if the wait passes a deadline. */
export const DEFERRED_TYPE = "fairgate.Deferred";
/** `ApplicationFailure.type` of a rejection; details: reason and explanation. Not retried: waiting would not help. */
export const REJECTED_TYPE = "fairgate.Rejected";
/** On an activity that is scheduled again: a Progress, as JSON. */
export const HEADER = "fairgate";

/** What a deferral hands over to the activity that is scheduled in its place. */
export interface Progress {
  request_id: string;
  /** Of the gate: attempts that are over. */
  attempts_before: number;
  /** Attempts that the retry policy has used up. Fewer than attempts_before once a send was followed by a deferral. */
  failures_before: number;
}

/** The detail of a failure of DEFERRED_TYPE. */
export interface Deferral {
  delay_ms: number;
  next: Progress;
}
