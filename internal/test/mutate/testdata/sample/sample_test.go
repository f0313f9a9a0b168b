package sample

import (
	"errors"
	"testing"
	"time"
)

func TestLimited(t *testing.T) {
	for n, want := range map[int]int{6: 6, 7: 7, 8: 7, 100: 7} {
		if got := Limited(n); got != want {
			t.Errorf("Limited(%d) = %d", n, got)
		}
	}
}

func TestPositive(t *testing.T) {
	if !Positive(1) || Positive(-1) {
		t.Error("wrong")
	}
}

func ExampleSum() {
	if Sum(3) != 3 {
		panic("wrong")
	}
	// Output:
}

func FuzzEvery(f *testing.F) {
	f.Add(uint8(3))
	f.Fuzz(func(t *testing.T, b uint8) {
		if got := Every(1, 2, []uint8{b}, true, false); got != -2 {
			t.Error(got)
		}
		if got := Every(1, 2, []uint8{b}, false, false); got != -1 {
			t.Error(got)
		}
		if got := Every(4, 2, []uint8{b, b}, true, true); got != -1 {
			t.Error(got)
		}
		if got := Every(4, 2, []uint8{b, b}, true, false); got != -2 {
			t.Error(got)
		}
	})
}

func TestNamed(t *testing.T) {
	if !Named(true, nil) || Named(false, nil) || !Named(false, errors.New("")) {
		t.Error("wrong")
	}
}

func TestSlow(t *testing.T) {
	time.Sleep(1500 * time.Millisecond)
	if Positive(0) {
		t.Error("only a slow test sees this")
	}
}
