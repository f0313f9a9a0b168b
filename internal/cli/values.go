package cli

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/words"
)

// A choice is a flag with a closed set of values.
type choice struct {
	value   *string
	allowed []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return "choice" }

func (c choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return errors.New("use " + words.Or(c.allowed))
	}
	*c.value = s
	return nil
}

// addChoice defines such a flag, and completes it. The usage names the values.
func addChoice(cmd *cobra.Command, value *string, name, usage string, allowed ...string) {
	cmd.Flags().Var(choice{value, allowed}, name, "`"+strings.Join(allowed, "|")+"`: "+usage)
	must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)))
}

// seconds is a duration as Go writes it, or a plain number of seconds.
type seconds time.Duration

func (d *seconds) Type() string { return "duration" }

func (d *seconds) String() string {
	s := time.Duration(*d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d *seconds) Set(s string) error {
	v, err := parseSeconds(s)
	if err == nil {
		*d = seconds(v)
	}
	return err
}

// parseSeconds never makes 0, which is no time-out at all, of what is more.
func parseSeconds(s string) (time.Duration, error) {
	bad := errors.New("use seconds, such as 90 or 0.5, or a duration, such as 10m; 0 is none")
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		v, err := time.ParseDuration(s)
		if err != nil || v < 0 {
			return 0, bad
		}
		return v, nil
	}
	ns := math.Ceil(f * float64(time.Second))
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0) || f < 0 || strings.ContainsAny(s, "xX_"):
		return 0, bad
	case ns >= math.MaxInt64:
		return 0, errors.New("it is more than 292 years; 0 is none")
	case f > 0 && ns == 0:
		ns = 1
	}
	return time.Duration(ns), nil
}

// size is a number of bytes, as 512m or 2g: powers of 1024. unlimited, where
// it is allowed, is -1.
type size struct {
	bytes     *int64
	unlimited bool
}

var sizeUnits = []struct {
	suffix string
	factor float64
}{{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}}

func (v size) Type() string { return "size" }

func (v size) String() string {
	switch n := *v.bytes; {
	case n == 0:
		return ""
	case n < 0:
		return unlimited
	default:
		for _, u := range slices.Backward(sizeUnits) {
			if f := int64(u.factor); n%f == 0 {
				return strconv.FormatInt(n/f, 10) + u.suffix
			}
		}
		return strconv.FormatInt(n, 10)
	}
}

const unlimited = "unlimited"

func (v size) Set(s string) error {
	if v.unlimited && s == unlimited {
		*v.bytes = -1
		return nil
	}
	number, factor := strings.ToLower(s), 1.0
	for _, suffix := range []string{"ib", "b"} {
		number = strings.TrimSuffix(number, suffix)
	}
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = rest, u.factor
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	n := f * factor
	if err != nil || math.IsNaN(n) || n < 1 || n >= math.MaxInt64 || strings.ContainsAny(number, "xe_") {
		hint := "use bytes, or a number such as 512m or 2g"
		if v.unlimited {
			hint += ", or " + unlimited
		}
		return errors.New(hint)
	}
	*v.bytes = int64(n)
	return nil
}

// count is a positive number, or unlimited, which is -1.
type count struct{ n *float64 }

func (v count) Type() string { return "count" }

func (v count) String() string {
	switch {
	case *v.n == 0:
		return ""
	case *v.n < 0:
		return unlimited
	}
	return strconv.FormatFloat(*v.n, 'g', -1, 64)
}

func (v count) Set(s string) error {
	if s == unlimited {
		*v.n = -1
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1<<31 {
		return errors.New("use a number greater than 0, or " + unlimited)
	}
	*v.n = f
	return nil
}

var (
	_ pflag.Value = choice{}
	_ pflag.Value = (*seconds)(nil)
	_ pflag.Value = size{}
	_ pflag.Value = count{}
)
