package fabric

import (
	"encoding/json"
	"math"
	"runtime"
	"testing"
)

func TestLoad(t *testing.T) {
	for _, tc := range []struct {
		load Load
		more int
		want int
	}{
		{Load{}, 0, 0},
		{Load{}, 2, 2000}, // nothing is known of it: one processor
		{Load{CPUs: 4, Running: 2}, 2, 1000},
		{Load{CPUs: 4, Average: 1500}, 2, 2000},
		{Load{CPUs: -1, Running: -5, Average: -7}, 1, 1000},
		{Load{CPUs: math.MaxInt, Running: math.MaxInt, Average: math.MaxInt}, 0, maxAverage + 1000*maxRunning/maxCPUs},
	} {
		if got := tc.load.With(tc.more); got != tc.want {
			t.Errorf("%+v with %d more: %d, want %d", tc.load, tc.more, got, tc.want)
		}
	}
}

// What a node says of its load is bounded when it is read.
func TestLoadOfHello(t *testing.T) {
	b, err := json.Marshal(Hello{Min: 1, Max: 1, Boot: "b", Load: Load{Running: math.MaxInt, CPUs: -3, Average: math.MinInt}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseHelloBody(b)
	if want := (Load{Running: maxRunning, CPUs: 1}); err != nil || h.Load != want {
		t.Errorf("%+v, %v", h.Load, err)
	}
	if h, err = ParseHelloBody([]byte(`{"min":1,"max":1,"boot":"b"}`)); err != nil || h.Load != (Load{CPUs: 1}) {
		t.Errorf("%+v, %v", h.Load, err)
	}
}

func TestMachineLoad(t *testing.T) {
	l := machineLoad(3)
	if runtime.GOOS == "linux" && (l.Memory <= 0 || l.MemoryUsed <= 0 || l.MemoryUsed > l.Memory || l.Disk < l.DiskUsed || l.Processes < 1) {
		t.Errorf("%+v", l)
	}
	if l.Running != 3 || l.CPUs != runtime.NumCPU() || l.Average < 0 || l.Average > maxAverage {
		t.Errorf("%+v", l)
	}
}
