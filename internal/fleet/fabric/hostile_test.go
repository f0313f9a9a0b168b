package fabric_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/origin"
)

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hostile is a gateway that has its key, or a message server, and says whatever
// it likes.
type hostile struct{ *rig }

func (r hostile) publish(subject string, data []byte) {
	r.t.Helper()
	if err := r.conn.Publish(subject, data); err != nil {
		r.t.Fatal(err)
	}
}

// ask sends a request that is genuine, and returns its number.
func (r hostile) ask(op fabric.Op, id string, body []byte) uint64 {
	r.t.Helper()
	h := r.header(op, id)
	r.send(r.seal(h, body)...)
	return h.Seq
}

func (r hostile) numbered(n uint64, op fabric.Op) {
	r.t.Helper()
	h := r.header(op, "job")
	h.Seq = n
	r.send(r.seal(h, nil)...)
}

func (r hostile) start(id string) {
	r.t.Helper()
	body, err := fabric.EncodeStart("", corral.Command{ID: id, Shell: "sleep", Stdin: true}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if a := r.answer(r.ask(fabric.OpStart, id, body)); a.Info == nil {
		r.t.Fatalf("%+v", a)
	}
}

func piece(write uint64, total, off int64, n int) []byte {
	return fabric.Input{Write: write, Total: total, Off: off, Data: make([]byte, n)}.Append(nil)
}

// What it may not say is refused, and the log of the node says so. What the node
// runs goes on.
func TestHostileGateway(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(r hostile)
		logged string
	}{
		{"a subject that means nothing", func(r hostile) { r.publish("fab.n."+nodeID+".more", nil) }, "on a subject that means nothing"},
		{"a subject below one", func(r hostile) { r.publish("fab.n."+nodeID+".req.more", nil) }, "on a subject that means nothing"},
		{"nothing", func(r hostile) { r.publish(fabric.RequestSubject(nodeID), nil) }, "refused a request that is none"},
		{"noise", func(r hostile) {
			r.publish(fabric.RequestSubject(nodeID), []byte(strings.Repeat("\x00\xff{", 1000)))
		}, "refused a request that is none"},
		{"a header that claims to be long", func(r hostile) { r.publish(fabric.RequestSubject(nodeID), []byte("\xff\xff{}")) }, "a header of 65535 bytes in 2"},
		{"a part that is none", func(r hostile) { r.publish(fabric.PartSubject(nodeID), []byte{200}) }, "refused a part of a request that is none"},
		{"a part in the place of a request", func(r hostile) {
			r.publish(fabric.RequestSubject(nodeID), r.seal(r.header(fabric.OpStart, "more"), make([]byte, 40_000))[1])
		}, "refused a request that is none"},
		{"a part that nobody announced", func(r hostile) {
			r.publish(fabric.PartSubject(nodeID), r.seal(r.header(fabric.OpStart, "more"), make([]byte, 40_000))[1])
		}, "refused a part of a request that nobody announced"},
		{"a bulk request in parts", func(r hostile) { r.ask(fabric.OpWrite, "job", make([]byte, 40_000)) }, "refused a request that is none"},
		{"the greatest number", func(r hostile) { r.numbered(math.MaxUint64, fabric.OpAttach) }, "the number 18446744073709551615"},
		{"the greatest numbers in turn", func(r hostile) {
			r.numbered(math.MaxUint64-3, fabric.OpRead)
			r.numbered(math.MaxUint64, fabric.OpRead)
		}, "the number 18446744073709551612"},
		{"a grant that is none", func(r hostile) { r.ask(fabric.OpRead, "job", []byte("{")) }, "refused a grant that is none"},
		{"a grant from before the beginning", func(r hostile) { r.ask(fabric.OpRead, "job", encode(r.t, fabric.Grant{Reader: 2, From: -1})) }, "a grant from -1"},
		{"a grant to the end of all", func(r hostile) {
			r.ask(fabric.OpRead, "job", encode(r.t, fabric.Grant{Reader: 2, Limit: math.MaxInt64}))
		}, "a grant from 0 to 9223372036854775807"},
		{"a grant to another's reader", func(r hostile) {
			r.ask(fabric.OpRead, "job", encode(r.t, fabric.Grant{Reader: 1, Limit: 10}))
			r.ask(fabric.OpRead, "other", encode(r.t, fabric.Grant{Reader: 1, Limit: 100}))
		}, "the reader of another process"},
		{"input that is none", func(r hostile) { r.ask(fabric.OpWrite, "job", []byte("abc")) }, "refused input that is none"},
		{"input beyond its end", func(r hostile) { r.ask(fabric.OpWrite, "job", piece(1, 5, 3, 3)) }, "3 bytes of input at 3 of 5"},
		{"input to another's write", func(r hostile) {
			r.ask(fabric.OpOpen, "job", piece(1, 1<<20, 0, 10))
			r.ask(fabric.OpWrite, "other", piece(1, 1<<20, 10, 10))
		}, "the write of another process"},
		{"input of another length", func(r hostile) {
			r.ask(fabric.OpOpen, "job", piece(1, 1<<20, 0, 10))
			r.ask(fabric.OpWrite, "job", piece(1, 1<<21, 10, 10))
		}, "it is of another length"},
		{"input beyond what was granted", func(r hostile) {
			r.ask(fabric.OpOpen, "job", piece(1, 1<<20, 0, 10))
			for off := int64(10); off < 300_000; off += 30_000 {
				r.ask(fabric.OpWrite, "job", piece(1, 1<<20, off, 30_000))
			}
		}, "more than was granted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := hostile{newRig(t)}
			r.start("job")
			r.start("other")
			tc.do(r)
			r.settled()
			if !strings.Contains(r.lines.String(), tc.logged) {
				t.Errorf("%q is not in the log:\n%s", tc.logged, r.lines)
			}
			if n := r.exec.Starts(); n != 2 {
				t.Errorf("%d commands ran", n)
			}
		})
	}
}

// What it asks for that there is not is answered.
func TestUnknownOperations(t *testing.T) {
	r := hostile{newRig(t)}
	r.start("job")
	for _, op := range []fabric.Op{"", "exec", "START", "open2"} {
		if a := r.answer(r.ask(op, "job", nil)); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), errors.ErrUnsupported) {
			t.Errorf("operation %q: %+v", op, a)
		}
	}
	for op, body := range map[fabric.Op]string{fabric.OpStart: "{", fabric.OpSignal: "{", fabric.OpResize: "[]"} {
		if a := r.answer(r.ask(op, "job", []byte(body))); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), corral.ErrInvalid) {
			t.Errorf("operation %q of %q: %+v", op, body, a)
		}
	}
}

// However much it asks for, the node's memory and its log are bounded, and it
// still answers.
func TestFloods(t *testing.T) {
	const memory = 256 << 20
	// The first requests that wait do so until the last are sent, however slow the machine is.
	fabric.SetWaitStep(t, 10*time.Minute)
	for _, tc := range []struct {
		name    string
		do      func(r hostile)
		refused func(r hostile) // waits until something is
		logged  string
	}{
		{"noise", func(r hostile) {
			for range 20_000 {
				r.publish(fabric.RequestSubject(nodeID), []byte("noise"))
			}
		}, nil, "refused a request that is none"},
		{"asking for hellos", func(r hostile) {
			for range 10_000 {
				r.publish(fabric.WhoSubject(nodeID), nil)
			}
		}, nil, "refused to say hello so often"},
		{"forged requests", func(r hostile) {
			m := r.seal(r.header(fabric.OpStart, "more"), startBody(r.t, "more", "print"))[0]
			m[len(m)-1] ^= 1
			for range 500 {
				r.publish(fabric.RequestSubject(nodeID), m)
			}
		}, nil, "did not sign"},
		{"requests that wait", func(r hostile) {
			for range 4200 {
				r.ask(fabric.OpWait, "job", nil)
			}
		}, func(r hostile) {
			if a := r.answer(r.seq); a.Refused != fabric.RefusedBusy {
				r.t.Errorf("%+v", a)
			}
		}, "requests=3072"},
		{"readers", func(r hostile) {
			for n := range uint64(4200) {
				r.ask(fabric.OpRead, "job", encode(r.t, fabric.Grant{Reader: n + 1, Limit: 1 << 40}))
			}
		}, func(r hostile) {
			if o, err := fabric.ParseOutput(r.hear(fabric.KindOutput, 4200)); err != nil || o.Flags != fabric.FlagError {
				r.t.Errorf("%+v, %v", o, err)
			}
		}, "readers=4096"},
		{"writes", func(r hostile) {
			for n := range uint64(1100) {
				r.ask(fabric.OpOpen, "job", piece(n+1, 1<<20, 0, fabric.MaxInput))
			}
		}, func(r hostile) {
			if a, err := fabric.ParseInputAck(r.hear(fabric.KindInput, 1100), 1<<20); err != nil || !errors.Is(a.Err(), corral.ErrUnavailable) {
				r.t.Errorf("%+v, %v", a, err)
			}
		}, "writes=1024"},
		{"input in tiny pieces", func(r hostile) {
			r.ask(fabric.OpOpen, "job", piece(1, 1<<20, 0, 1))
			for off := range int64(2000) {
				r.ask(fabric.OpWrite, "job", piece(1, 1<<20, off+1, 1))
			}
		}, func(r hostile) {
			for {
				a, err := fabric.ParseInputAck(r.hear(fabric.KindInput, 1), 1<<20)
				if err != nil || a.Next > 100 {
					r.t.Fatalf("%+v, %v", a, err)
				}
				if a.Flags&fabric.FlagGap != 0 {
					return
				}
			}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := hostile{newRig(t)}
			r.start("job")
			var hellos int
			sub, err := r.conn.Subscribe(fabric.AllHellos, func(*nats.Msg) { hellos++ }) // ends before it is read
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			begun := time.Now()
			tc.do(r)
			if tc.refused != nil {
				tc.refused(r)
			}
			h := r.header(fabric.OpAttach, "job")
			r.send(r.seal(h, []byte("{}"))...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Errorf("%+v", a)
			}
			seconds := int(time.Since(begun).Seconds()) + 1
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > memory {
				t.Errorf("%d MB more are in use", grown>>20)
			}
			log := r.lines.String()
			if n := strings.Count(log, "\n"); n > 20+5*seconds {
				t.Errorf("%d lines in %d s", n, seconds)
			}
			if !strings.Contains(log, tc.logged) {
				t.Errorf("%q is not in the log:\n%s", tc.logged, log)
			}
			closed := make(chan struct{})
			sub.SetClosedHandler(func(string) { close(closed) })
			if err := sub.Drain(); err != nil {
				t.Fatal(err)
			}
			<-closed
			if hellos > 50+11*seconds {
				t.Errorf("%d hellos in %d s", hellos, seconds)
			}
		})
	}
}

// What a node says of an error is a line, and does nothing to a terminal.
func TestErrorsAreLines(t *testing.T) {
	err := fabric.DecodeError(&api.ErrorBody{Code: "denied", Message: "no\x1b]0;title\a\r\nlines\u009b31m\xff", Hint: "a\x1b[31m\nhint" + strings.Repeat("x", 2000)})
	if got, want := err.Error(), "no ]0;title   lines 31m"; got != want {
		t.Errorf("the error is %q, and not %q", got, want)
	}
	if got := corral.Hint(err); !strings.HasPrefix(got, "a [31m hintxxx") || len(got) != 1<<10 {
		t.Errorf("the hint is %q", got)
	}
}

// The same of what it warns of, and of the programs that it names.
func TestWarningsAreLines(t *testing.T) {
	const bad, good = "a\x1b[2J\u009b31m\nwarning: b", "a [2J 31m warning: b"
	a, err := fabric.ParseAnswer(fabric.EncodeAnswer(fabric.Answer{
		Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Warnings: slices.Repeat([]string{bad}, 1000)}},
		Exit: &corral.Exit{Reason: corral.ReasonExited, Refused: []string{bad}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Info.Warnings; len(got) == 0 || len(got) > 64 || got[0] != good {
		t.Errorf("%d warnings, of which the first is %q", len(got), got)
	}
	if got := a.Exit.Refused; len(got) != 1 || got[0] != good {
		t.Errorf("%q", got)
	}
}
