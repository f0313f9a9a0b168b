// Package cmdline is what any command line needs: flags that are checked when they are
// read, help, and tables. It knows none of Corral's commands.
package cmdline

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

// A Choice is a flag with a closed set of values.
type Choice[T ~string] struct {
	Value   *T
	Allowed []string
}

func (c Choice[T]) String() string { return string(*c.Value) }

// Type implements pflag.Value.
func (c Choice[T]) Type() string { return "choice" }

// Set implements pflag.Value.
func (c Choice[T]) Set(s string) error {
	if !slices.Contains(c.Allowed, s) {
		return errors.New("use " + words.Or(c.Allowed))
	}
	*c.Value = T(s)
	return nil
}

// AddChoice defines such a flag, and completes it. The usage names the values.
func AddChoice[T ~string](cmd *cobra.Command, value *T, name, usage string, allowed ...string) {
	cmd.Flags().Var(Choice[T]{value, allowed}, name, "`"+strings.Join(allowed, "|")+"`: "+usage)
	Must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)))
}

// Seconds is a duration as Go writes it, or a plain number of seconds.
type Seconds time.Duration

func (d *Seconds) Type() string { return "duration" }

func (d *Seconds) String() string {
	s := time.Duration(*d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d *Seconds) Set(s string) error {
	v, err := ParseSeconds(s)
	if err == nil {
		*d = Seconds(v)
	}
	return err
}

// ParseSeconds never makes 0, which is no time-out at all, of what is more.
func ParseSeconds(s string) (time.Duration, error) {
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

// Size is a number of bytes, as 512m or 2g: powers of 1024. Unlimited, where
// it is allowed, is -1.
type Size struct {
	Bytes     *int64
	Unlimited bool
}

var sizeUnits = []struct {
	suffix string
	factor float64
}{{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}}

func (v Size) Type() string { return "size" }

func (v Size) String() string {
	switch n := *v.Bytes; {
	case n == 0:
		return ""
	case n < 0:
		return Unlimited
	default:
		for _, u := range slices.Backward(sizeUnits) {
			if f := int64(u.factor); n%f == 0 {
				return strconv.FormatInt(n/f, 10) + u.suffix
			}
		}
		return strconv.FormatInt(n, 10)
	}
}

// Unlimited is how no limit is written.
const Unlimited = "unlimited"

func (v Size) Set(s string) error {
	if v.Unlimited && s == Unlimited {
		*v.Bytes = -1
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
		if v.Unlimited {
			hint += ", or " + Unlimited
		}
		return errors.New(hint)
	}
	*v.Bytes = int64(n)
	return nil
}

// Count is a positive number, or unlimited, which is -1. One of a type of integers is
// whole.
type Count[T int64 | float64] struct{ N *T }

// Type implements pflag.Value.
func (v Count[T]) Type() string { return "count" }

func (v Count[T]) String() string {
	switch {
	case *v.N == 0:
		return ""
	case *v.N < 0:
		return Unlimited
	}
	return strconv.FormatFloat(float64(*v.N), 'g', -1, 64)
}

// Set implements pflag.Value.
func (v Count[T]) Set(s string) error {
	if s == Unlimited {
		*v.N = -1
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(f) || f <= 0 || f > 1<<31:
		return errors.New("use a number greater than 0, or " + Unlimited)
	case float64(T(f)) != f:
		return errors.New("use a whole number, or " + Unlimited)
	}
	*v.N = T(f)
	return nil
}

var (
	_ pflag.Value = Choice[string]{}
	_ pflag.Value = (*Seconds)(nil)
	_ pflag.Value = Size{}
	_ pflag.Value = Count[int64]{}
)

// Optional is a time whose default the usage says in its own words.
type Optional struct{ *Seconds }

func (Optional) String() string { return "" }
