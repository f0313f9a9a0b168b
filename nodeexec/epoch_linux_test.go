package nodeexec_test

import (
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

// bus is an attacker who controls the message server: it hears all that the node is
// asked, and sends what it likes.
type bus struct {
	*rig
	conn *nats.Conn
	sub  *nats.Subscription
}

func (r *rig) bus() *bus {
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
	return &bus{r, conn, sub}
}

// heard returns what the node was asked since the last call.
func (b *bus) heard() (list []*nats.Msg) {
	b.tb.Helper()
	// What the gateway has published comes before "end".
	if err := b.rig.conn.Flush(); err != nil {
		b.tb.Fatal(err)
	}
	b.publish(fabric.PartSubject(nodeID), []byte("end"))
	for {
		m, err := b.sub.NextMsg(10 * time.Second)
		if err != nil {
			b.tb.Fatal(err)
		}
		if string(m.Data) == "end" {
			return list
		}
		list = append(list, m)
	}
}

// ops are the operations of the requests in list.
func (b *bus) ops(list []*nats.Msg) string {
	b.tb.Helper()
	var ops []string
	for _, m := range list {
		if m.Subject != fabric.RequestSubject(nodeID) {
			continue
		}
		e, err := fabric.ParseEnvelope(m.Data)
		if err != nil {
			b.tb.Fatal(err)
		}
		ops = append(ops, string(e.Op))
	}
	return strings.Join(ops, " ")
}

func (b *bus) publish(subject string, data []byte) {
	b.tb.Helper()
	if err := b.conn.Publish(subject, data); err != nil {
		b.tb.Fatal(err)
	}
	if err := b.conn.Flush(); err != nil {
		b.tb.Fatal(err)
	}
}

// epochRig is a rig with a node that runs "hello" and "cat".
func epochRig(t *testing.T) (*rig, *fakeexec.Executor) {
	r := newRig(t)
	r.open()
	host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hello": fakeexec.Print("hello\n", "", 3), "cat": fakeexec.Cat}}
	t.Cleanup(func() {
		r.stop()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	r.serve(host)
	return r, host
}

// runHello runs "hello" and removes it, once its output has ended.
func runHello(t *testing.T, x corral.Executor) {
	t.Helper()
	p, err := x.Start(t.Context(), corral.Command{Args: []string{"hello"}})
	for end := time.Now().Add(time.Minute); errors.Is(err, corral.ErrUnavailable) && time.Now().Before(end); { // the gateway heard of a restart just then
		p, err = x.Start(t.Context(), corral.Command{Args: []string{"hello"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("%v, %v", exit, err)
	}
	if err := p.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A short command is two requests, to start it and to remove it. After a restart of the node the gateway goes on by
// itself, and nothing of what it asked earlier means anything.
func TestNodeRestarts(t *testing.T) {
	r, host := epochRig(t)
	x, b := r.node(), r.bus()
	runHello(t, x)
	recorded := b.heard()
	if got := b.ops(recorded); got != "start remove" {
		t.Errorf("asked %s", got)
	}
	start(t, x, corral.Command{Args: []string{"cat", strings.Repeat("x", 100_000)}}) // comes in parts
	recorded = append(recorded, b.heard()...)
	replay := func() {
		t.Helper()
		for _, m := range recorded {
			b.publish(m.Subject, m.Data)
		}
		starts := host.Starts()
		runHello(t, x) // it is asked after all of that
		if n := host.Starts(); n != starts+1 {
			t.Errorf("%d commands ran, and %d before", n, starts)
		}
	}
	replay()
	if got := host.Starts(); got != 3 {
		t.Errorf("%d commands ran", got)
	}
	for life := range 3 {
		r.stop()
		r.serve(host)
		r.node()
		replay()
		if got := host.Starts(); got != 4+life {
			t.Errorf("%d commands ran", got)
		}
	}
	p := start(t, x, corral.Command{ID: "cat", Args: []string{"cat"}, Stdin: true})
	r.stop()
	r.serve(host)
	r.node()
	if n, err := p.Write(t.Context(), []byte("text")); n != 4 || err != nil {
		t.Error(n, err)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Error(err)
	}
	if got := readAll(t, p); string(got) != "text" {
		t.Errorf("it printed %q", got)
	}
}

// A forged hello makes the gateway sign for a life or an epoch that the node does not
// have. The node refuses that, the gateway learns better, and the command runs once.
func TestForgedHello(t *testing.T) {
	r, host := epochRig(t)
	x, b := r.node(), r.bus()
	var told fabric.Hello
	hellos, err := b.conn.SubscribeSync(fabric.HelloSubject(nodeID))
	if err != nil {
		t.Fatal(err)
	}
	b.publish(fabric.WhoSubject(nodeID), nil)
	m, err := hellos.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if told, err = fabric.ParseHelloBody(m.Data); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		boot := "forged"
		if i%2 == 0 {
			boot = told.Boot
		}
		b.publish(fabric.HelloSubject(nodeID), fmt.Appendf(nil, `{"min":1,"max":1,"boot":%q,"link":%d,"epoch":7}`, boot, i))
		if err := r.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		runHello(t, x)
		if n := host.Starts(); n != i+1 {
			t.Fatalf("%d commands ran, not %d", n, i+1)
		}
	}
	if got := b.ops(b.heard()); len(strings.Fields(got)) <= 40 {
		t.Errorf("nothing was refused: %s", got)
	}
}

// A node that always wants another epoch is not asked without end.
func TestNodeRefusesEveryEpoch(t *testing.T) {
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
			if !errors.Is(err, corral.ErrUnavailable) || asked < 2 || asked > 10 || !strings.Contains(err.Error(), "refuses the request: epoch") {
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
		h.say(h.to(fabric.KindAnswer, e.Seq), fmt.Sprintf(`{"boot":"b","refused":"epoch","epoch":%d}`, asked))
	}
}
