package fairgate

import "time"

// breaker counts failures in a row; open, it lets one try through per cooldown. Its owner locks.
type breaker struct {
	failuresMax int // not positive: never opens
	cooldown    time.Duration
	failures    int
	retryAt     time.Time
}

func (b *breaker) isOpen() bool { return b.failuresMax > 0 && b.failures >= b.failuresMax }

// allows says whether this caller may ask; open, the first one after the cooldown tries for all.
func (b *breaker) allows(now time.Time) bool {
	if !b.isOpen() {
		return true
	}
	if now.Before(b.retryAt) {
		return false
	}
	b.retryAt = now.Add(b.cooldown)
	return true
}

func (b *breaker) succeeded() { b.failures = 0 }

func (b *breaker) failed(now time.Time) {
	if b.failures < b.failuresMax {
		b.failures++
	}
	if b.isOpen() {
		b.retryAt = now.Add(b.cooldown)
	}
}
