package main

// The token bucket of systems/parts/token_bucket.py, step by step: a token is 10^12 units, a rate
// is in units a nanosecond. systems/parts/token_bucket_vectors.json holds both to the same answers.
const (
	token           int64 = 1e12
	maximumRate     int64 = 4e8
	maximumCapacity int64 = 4e18
	longNs          int64 = 1e10 // refill in steps of at most this, so that they stay inside 64 bits
)

// refill is the level after elapsed nanoseconds, at most capacity.
func refill(level, elapsed, rate, capacity int64) int64 {
	for elapsed > longNs && level < capacity {
		level = min(capacity, level+longNs*rate)
		elapsed -= longNs
	}
	return min(capacity, level+min(elapsed, longNs)*rate)
}

// waitNs is how long until a debt is repaid: 0 for a level that is not negative.
func waitNs(level, rate int64) int64 {
	if level >= 0 {
		return 0
	}
	return (rate - 1 - level) / rate
}

// bucket is a topic's share of its token bucket. The zero value has no limit.
type bucket struct {
	limited        bool
	rate, capacity int64
	level          int64 // at the instant below; negative while messages wait
	atNs           int64
}

// refillTo credits the tokens up to an instant. The stamps of two connections may cross: the bucket never goes back.
func (b *bucket) refillTo(atNs int64) {
	if atNs > b.atNs {
		b.level = refill(b.level, atNs-b.atNs, b.rate, b.capacity)
		b.atNs = atNs
	}
}

// take takes a token for a message that arrived at stampNs and returns when the message may leave.
func (b *bucket) take(stampNs int64) int64 {
	if !b.limited {
		return stampNs
	}
	b.refillTo(stampNs)
	b.level -= token
	if b.level >= 0 {
		return stampNs
	}
	return b.atNs + waitNs(b.level, b.rate)
}

// set gives the bucket a new rate and size. Its tokens stay, cut to the size, unless it is to be
// full; a bucket that had no limit is full. Messages that wait keep the tokens that they took.
func (b *bucket) set(rate, capacity int64, full bool, waiting int64, nowNs int64) {
	if full || !b.limited {
		b.level, b.atNs = capacity-waiting*token, nowNs
	} else {
		b.refillTo(nowNs)
	}
	b.limited, b.rate, b.capacity = true, rate, capacity
	b.level = min(b.level, capacity)
}

// due is when a waiting message may leave that has so many others behind it.
func (b *bucket) due(behind int64) int64 {
	return b.atNs + waitNs(b.level+behind*token, b.rate)
}
