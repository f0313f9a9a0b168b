package fabric

import "testing"

// A reader goes back when it is asked to, but never to what the gateway has, and goes on
// where the gateway is: a connection to a port has nothing before that.
func TestReaderGrants(t *testing.T) {
	for _, test := range []struct {
		what   string
		next   int64
		grants []Grant
		want   int64
	}{
		{"more", 100, []Grant{{From: 60, Limit: 200}}, 100},
		{"again", 100, []Grant{{From: 60, Limit: 200, Reset: true}}, 60},
		{"what was asked for again came after all", 100, []Grant{{From: 60, Reset: true}, {From: 90}}, 90},
		{"overtaken", 100, []Grant{{From: 90}, {From: 60, Reset: true}}, 100},
		{"again twice", 100, []Grant{{From: 60, Reset: true}, {From: 70, Reset: true}}, 70},
	} {
		stopped := 0
		r := &reader{next: test.next, wake: make(chan struct{}, 1), stop: func() { stopped++ }}
		for _, g := range test.grants {
			r.grant(g)
		}
		if r.next != test.want || (stopped > 0) != (test.want != test.next) || r.resets != stopped {
			t.Errorf("%s: reads on at %d, stopped %d times, %d resets; want %d", test.what, r.next, stopped, r.resets, test.want)
		}
	}
}
