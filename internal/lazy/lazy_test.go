package lazy

import (
	"os"
	"testing"
)

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func TestRegexp(t *testing.T) {
	if !panics(func() { Regexp(`(`) }) {
		t.Error("a test does not find a mistake in a pattern that it does not use")
	}
	name := os.Args[0]
	defer func() { os.Args[0] = name }()
	os.Args[0] = "corral"
	later := Regexp(`(`)
	if !panics(func() { later() }) {
		t.Error("the pattern is not compiled when it is used")
	}
	digits := Regexp(`^[0-9]+$`)
	first := digits()
	if !first.MatchString("12") || first.MatchString("x") || digits() != first {
		t.Errorf("%v, and then %v", first, digits())
	}
}
