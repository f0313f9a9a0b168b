package cmdline

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0.0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, ".25": 250 * time.Millisecond,
		"10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "200ms": 200 * time.Millisecond, "1e3": 1000 * time.Second,
		"0.0000000000001": 1, // more than 0 is never none
	} {
		var d Seconds
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "NaN", "Inf", "-Inf", "0x10", "1_0", "1e300", "9300000000", "10 m", "10x", "m"} {
		d := Seconds(time.Hour)
		if err := d.Set(text); err == nil || time.Duration(d) != time.Hour {
			t.Errorf("%q was taken for %v, %v", text, time.Duration(d), err)
		}
	}
}

// What is printed can be read again, and is the same.
func TestSecondsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Seconds(rapid.Int64Range(0, int64(time.Hour)*24*365).Draw(t, "ns"))
		var again Seconds
		if err := again.Set(d.String()); err != nil || again != d {
			t.Fatalf("%v, %v; want %v", again, err, d)
		}
	})
	for d, want := range map[time.Duration]string{30 * time.Minute: "30m", 2 * time.Hour: "2h", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 0: "0s"} {
		if got := (*Seconds)(&d).String(); got != want {
			t.Errorf("%v is printed as %s, want %s", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "100000": 100000, "512m": 512 << 20, "512M": 512 << 20, "2g": 2 << 30, "2GiB": 2 << 30, "2GB": 2 << 30,
		"1.5k": 1536, "1t": 1 << 40, "unlimited": -1,
	} {
		var n int64
		if err := (Size{Bytes: &n, Unlimited: true}).Set(text); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0.5", "m", "12x", "NaN", "Infg", "1e3", "99999999t", "1 g"} {
		n := int64(7)
		if err := (Size{Bytes: &n, Unlimited: true}).Set(text); err == nil || n != 7 {
			t.Errorf("%q was taken for %d, %v", text, n, err)
		}
	}
	var n int64
	if err := (Size{Bytes: &n}).Set(Unlimited); err == nil {
		t.Error("a size that must be limited is unlimited")
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(1, 1<<50).Draw(t, "n")
		var got int64
		if err := (Size{Bytes: &got, Unlimited: true}).Set(Size{Bytes: &want, Unlimited: true}.String()); err != nil || got != want {
			t.Fatalf("%d, %v; want %d", got, err, want)
		}
	})
}

func TestCount(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.5": 0.5, "64": 64, "unlimited": -1} {
		var n float64
		if err := (Count[float64]{N: &n}).Set(text); err != nil || n != want || (Count[float64]{N: &n}).String() != text {
			t.Errorf("%q: %v, %v; want %v", text, n, err, want)
		}
	}
	n := int64(7)
	if err := (Count[int64]{N: &n}).Set("1.5"); err == nil || n != 7 {
		t.Errorf("1.5 processes: %d, %v", n, err)
	}
	if err := (Count[int64]{N: &n}).Set("512"); err != nil || n != 512 {
		t.Errorf("512 processes: %d, %v", n, err)
	}
	for _, text := range []string{"", "0", "-1", "NaN", "Inf", "1e300", "many"} {
		n := 7.0
		if err := (Count[float64]{N: &n}).Set(text); err == nil || n != 7 {
			t.Errorf("%q was taken for %v, %v", text, n, err)
		}
	}
}

// Whatever is typed, a value that is taken is one that is printed and read
// again as the same.
func FuzzValues(f *testing.F) {
	for _, text := range []string{"1.5", "10m", "2g", "unlimited", "0", "-1", "1e3", "NaN", "9300000000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, d2 Seconds
		if d.Set(text) == nil {
			if err := d2.Set(d.String()); err != nil || d2 != d || d < 0 {
				t.Errorf("%q: %v, then %v, %v", text, &d, &d2, err)
			}
		}
		var n, n2 int64
		if (Size{Bytes: &n, Unlimited: true}).Set(text) == nil {
			if err := (Size{Bytes: &n2, Unlimited: true}).Set(Size{Bytes: &n, Unlimited: true}.String()); err != nil || n2 != n || n == 0 {
				t.Errorf("%q: %d, then %d, %v", text, n, n2, err)
			}
		}
		var c, c2 float64
		if (Count[float64]{N: &c}).Set(text) == nil {
			if err := (Count[float64]{N: &c2}).Set(Count[float64]{N: &c}.String()); err != nil || c2 != c || c == 0 {
				t.Errorf("%q: %v, then %v, %v", text, c, c2, err)
			}
		}
	})
}
