package nodeexec_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// proofs hears all that the node is asked, and says how each request is proven.
func (r *rig) proofs() (next func() []string) {
	r.tb.Helper()
	conn, err := r.connect()
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(conn.Close)
	sub, err := conn.SubscribeSync(fabric.NodeSubjects(nodeID))
	if err != nil {
		r.tb.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		r.tb.Fatal(err)
	}
	return func() (list []string) {
		r.tb.Helper()
		// What the gateway has published comes before what this one says.
		if err := r.conn.Flush(); err != nil {
			r.tb.Fatal(err)
		}
		if err := conn.Publish(fabric.PartSubject(nodeID), []byte("end")); err != nil {
			r.tb.Fatal(err)
		}
		for {
			m, err := sub.NextMsg(10 * time.Second)
			if err != nil {
				r.tb.Fatal(err)
			}
			if string(m.Data) == "end" {
				return list
			}
			if m.Subject == fabric.RequestSubject(nodeID) {
				list = append(list, proofOf(r.tb, m))
			}
		}
	}
}

// proofOf is what a request is, and how it is proven.
func proofOf(tb testing.TB, m *nats.Msg) string {
	tb.Helper()
	e, err := fabric.ParseEnvelope(m.Data)
	switch {
	case err != nil:
		tb.Fatal(err)
	case e.Agreed:
		return string(e.Op) + " agreed"
	case e.Share != nil:
		return string(e.Op) + " signed, agreeing"
	}
	return string(e.Op) + " signed"
}

// Only the first request to a life of a node's program is signed.
func TestAgreement(t *testing.T) {
	r := newRig(t)
	f := r.open()
	host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hello": fakeexec.Print("hello\n", "", 3), "cat": fakeexec.Cat}}
	t.Cleanup(func() {
		r.stop()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	r.serve(host)
	x := r.node()
	next := r.proofs()
	run := func() {
		t.Helper()
		p := start(t, x, corral.Command{Args: []string{"hello"}})
		if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
			t.Errorf("%v, %v", exit, err)
		}
		if err := p.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if got := strings.Join(next(), "; "); got != want {
			t.Errorf("asked %s\nand not %s", got, want)
		}
	}
	run()
	expect("start signed, agreeing; remove agreed")
	run()
	expect("start agreed; remove agreed")
	p := start(t, x, corral.Command{Args: []string{"cat"}, Stdin: true})
	if _, err := p.Write(t.Context(), make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := next(); len(got) < 6 || strings.Contains(strings.Join(got, ";"), "signed") {
		t.Errorf("asked %v", got)
	}
	// What does not fit into one message is signed.
	p = start(t, x, corral.Command{Args: []string{"hello", strings.Repeat("x", 100_000)}})
	expect("start signed")
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}

	r.stop()
	r.serve(host)
	if r.node() == nil {
		t.Fatal(f)
	}
	next()
	run()
	got := strings.Join(next(), "; ")
	if !strings.HasSuffix(got, "start signed, agreeing; remove agreed") {
		t.Errorf("asked %s", got)
	}
}

// A node that does not say what it takes to agree, such as an older one, or that
// says what nobody can agree with, is asked by signed requests.
func TestNodesThatDoNotAgree(t *testing.T) {
	zero := base64.StdEncoding.EncodeToString(make([]byte, fabric.ShareLen))
	for _, tc := range []struct{ name, hello, want, logged string }{
		{"an older one", `{"min":1,"max":1,"boot":"b","link":1}`, "start signed", ""},
		{"no epoch", `{"min":1,"max":1,"boot":"b","link":1,"share":"` + zero + `"}`, "start signed", ""},
		{"no secret", `{"min":1,"max":1,"boot":"b","link":1,"epoch":7,"share":"` + zero + `"}`, "start signed", "refused to agree with a node"},
		{"a share of another length", `{"min":1,"max":1,"boot":"b","link":1,"epoch":7,"share":"AAAA"}`, "start signed", "hello that cannot be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			h.say(fabric.HelloSubject(evilID), tc.hello)
			if err := h.conn.Flush(); err != nil {
				t.Fatal(err)
			}
			if tc.logged == "" || strings.Contains(tc.logged, "agree") { // until it is taken
				for end := time.Now().Add(10 * time.Second); ; {
					taken := false
					for _, n := range h.fabric.List(t.Context()) {
						taken = taken || n.ID == evilID && n.Online
					}
					if taken || time.Now().After(end) {
						break
					}
				}
			} else {
				h.logged(tc.logged)
			}
			x, _, err := h.fabric.Select(t.Context(), evilID)
			if err != nil {
				t.Fatal(err)
			}
			started := make(chan error, 1)
			go func() {
				_, err := x.Start(t.Context(), corral.Command{ID: "evil-job", Shell: "sleep"})
				started <- err
			}()
			m, err := h.asked.NextMsg(10 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := proofOf(t, m); got != tc.want {
				t.Errorf("asked %s, not %s", got, tc.want)
			}
			e, err := fabric.ParseEnvelope(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			h.say(h.to(fabric.KindAnswer, e.Seq), `{"boot":"b","error":{"code":"denied","message":"no"}}`)
			if err := <-started; !errors.Is(err, corral.ErrDenied) {
				t.Errorf("Start: %v", err)
			}
			if tc.logged != "" {
				h.logged(tc.logged)
			}
			h.works()
		})
	}
}

// A node that forgets all that was agreed, or always wants another epoch, is not
// asked without end.
func TestNodesThatRefuseEveryProof(t *testing.T) {
	for _, why := range []fabric.Refusal{fabric.RefusedAgreement, fabric.RefusedTime} {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			x, _, err := h.fabric.Select(t.Context(), evilID)
			if err != nil {
				t.Fatal(err)
			}
			started := make(chan error, 1)
			go func() {
				_, err := x.Start(t.Context(), corral.Command{ID: "evil-job", Shell: "sleep"})
				started <- err
			}()
			for asked := 0; ; {
				select {
				case err := <-started:
					if !errors.Is(err, corral.ErrUnavailable) || asked < 2 || asked > 10 || !strings.Contains(err.Error(), "refuses the request: "+string(why)) {
						t.Errorf("asked %d times: %v", asked, err)
					}
					h.works()
					return
				default:
				}
				m, err := h.asked.NextMsg(100 * time.Millisecond)
				if errors.Is(err, nats.ErrTimeout) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				e, err := fabric.ParseEnvelope(m.Data)
				if err != nil {
					t.Fatal(err)
				}
				asked++
				h.say(h.to(fabric.KindAnswer, e.Seq), fmt.Sprintf(`{"boot":"b","refused":%q,"epoch":%d}`, why, asked))
			}
		})
	}
}
