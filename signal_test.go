package corral_test

import (
	"errors"
	"testing"

	"github.com/corral-exec/corral"
)

func TestSignalRoundTrip(t *testing.T) {
	for n := 1; n <= 64; n++ {
		s := corral.Signal(n)
		if !s.Valid() {
			t.Errorf("%d is not valid", n)
		}
		if n == 32 || n == 33 { // the C library's own: no name
			continue
		}
		if got, err := corral.ParseSignal(s.String()); got != s || err != nil {
			t.Errorf("%s is read as %d, %v", s, got, err)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]corral.Signal{
		"15": 15, "TERM": 15, "SIGTERM": 15, "sigterm": 15, "Kill": 9, "1": 1, "64": 64, "33": 33,
		"RTMIN": 34, "SIGRTMIN": 34, "RTMIN+0": 34, "rtmin+3": 37, "RTMIN+30": 64,
	} {
		if got, err := corral.ParseSignal(text); got != want || err != nil {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-9", "65", "SIG", "SIGSIGTERM", "TERMINATE", " TERM", "RTMIN+31", "RTMIN-1", "RTMIN+-1", "RTMIN++1", "RTMIN+", "RTMIN3", "9.0"} {
		if got, err := corral.ParseSignal(text); !errors.Is(err, corral.ErrInvalid) || got != 0 || corral.Hint(err) == "" {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}

func TestSignalOutOfRange(t *testing.T) {
	for n, want := range map[corral.Signal]string{0: "signal 0", -1: "signal -1", 32: "signal 32", 65: "signal 65"} {
		if got := n.String(); got != want {
			t.Errorf("%d is %q, want %q", int(n), got, want)
		}
	}
	if corral.Signal(0).Valid() || corral.Signal(65).Valid() {
		t.Error("valid")
	}
}
