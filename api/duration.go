package api

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// A Duration is written as Go does ("1m30s"); a bare number is seconds, with
// fractions.
type Duration time.Duration

// maxSeconds bounds a number of seconds; a larger one was surely meant as nanoseconds.
const maxSeconds = 1e9 - 1

// ParseDuration reads "90s", "90" and "1.5". The result is 0, which means no time-out,
// only for a zero.
func ParseDuration(s string) (time.Duration, error) {
	const hint = `use a Go duration such as "1m30s", or a number of seconds below 1e9`
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(n) || math.Abs(n) > maxSeconds {
			return 0, corral.Errorf(corral.ErrInvalid, hint, "the duration %q is out of range", s)
		}
		ns := n * float64(time.Second)
		return time.Duration(math.Copysign(math.Ceil(math.Abs(ns)), ns)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, corral.Errorf(corral.ErrInvalid, hint, "%q is not a duration", s)
	}
	return d, nil
}

// MarshalJSON writes a string, which loses nothing.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a string or a number of seconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	s := string(data)
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
	}
	v, err := ParseDuration(s)
	*d = Duration(v)
	return err
}
