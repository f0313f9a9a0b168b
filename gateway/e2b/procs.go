package e2b

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/session"
)

// A proc is a process of a sandbox: a session whose ID begins with the sandbox's.
type proc struct {
	session *session.Session
	pid     uint32
	tag     string
	config  *pb.ProcessConfig
	tty     bool

	mu      sync.Mutex
	sent    int64 // of the output, to a client
	clients int   // that follow it
}

// rest is from where on a client gets output that comes after another was cut off; alone
// is false if another one still follows.
func (p *proc) rest() (from int64, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.clients == 0
}

func (p *proc) join(from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients++
	p.sent = max(p.sent, from)
}

func (p *proc) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients--
}

func (p *proc) sentTo(off int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = max(p.sent, off)
}

// data is output as an event.
func (p *proc) data(c corral.Chunk) *pb.ProcessEvent {
	e := &pb.ProcessEvent_DataEvent{}
	switch {
	case p.tty:
		e.Output = &pb.ProcessEvent_DataEvent_Pty{Pty: c.Data}
	case c.Stream == corral.Stderr:
		e.Output = &pb.ProcessEvent_DataEvent_Stderr{Stderr: c.Data}
	default:
		e.Output = &pb.ProcessEvent_DataEvent_Stdout{Stdout: c.Data}
	}
	return &pb.ProcessEvent{Event: &pb.ProcessEvent_Data{Data: e}}
}

func (p *proc) info() *pb.ProcessInfo {
	i := &pb.ProcessInfo{Config: p.config, Pid: p.pid}
	if p.tag != "" {
		i.Tag = &p.tag
	}
	return i
}

// matches reports whether a process is meant.
func (p *proc) matches(which *pb.ProcessSelector) bool {
	if tag := which.GetTag(); tag != "" {
		return p.tag == tag
	}
	return p.pid != 0 && p.pid == which.GetPid() // one that is not found has none
}

// procs are the processes of all sandboxes, as far as they run or have ended a moment ago:
// a *boxProcs by the sandbox's ID.
type procs struct{ sync.Map }

// boxProcs are those of a sandbox.
type boxProcs struct {
	mu     sync.Mutex
	known  bool
	list   []*proc   // the oldest first
	tidied time.Time // when those were left out that ended a while ago
}

// add notes a process that was begun.
func (ps *procs) add(ctx call, agent session.Agent, begun *session.Session, req *pb.StartRequest) *proc {
	p := &proc{session: begun, pid: uint32(begun.Info().PID), tag: req.GetTag(), config: req.GetProcess(), tty: req.Pty != nil}
	of := ps.take(ctx, agent)
	defer of.mu.Unlock()
	of.list = slices.DeleteFunc(of.list, func(o *proc) bool { return o.session == begun }) // it may have been found by now
	of.tidy()
	of.list = append(of.list, p)
	return p
}

// take returns the processes of a sandbox, locked, with those that earlier lives of the
// gateway began.
func (ps *procs) take(c call, agent session.Agent) *boxProcs {
	kept, _ := ps.LoadOrStore(c.box.ID, &boxProcs{})
	of := kept.(*boxProcs)
	if of.mu.Lock(); of.known {
		return of
	}
	of.known = true
	for _, st := range agent.List(c) {
		if !strings.HasPrefix(st.ID, c.box.ID+".") || st.PID == 0 {
			continue
		}
		found, err := agent.Session(st.ID)
		if err != nil {
			continue // removed meanwhile
		}
		p := &proc{session: found, pid: uint32(st.PID), tag: st.Description, tty: st.TTY, config: &pb.ProcessConfig{Cmd: st.Command, Cwd: &st.Dir}}
		of.list = append(of.list, p)
	}
	slices.SortFunc(of.list, func(a, b *proc) int { return a.session.Info().StartedAt.Compare(b.session.Info().StartedAt) })
	return of
}

// tidy leaves out processes that ended a while ago, now and then: there may be thousands.
func (of *boxProcs) tidy() {
	if now := time.Now(); now.Sub(of.tidied) >= time.Second {
		of.tidied = now
		of.list = slices.DeleteFunc(of.list, func(p *proc) bool { return p.over(keptEnd) })
	}
}

// over reports whether it ended longer ago than kept.
func (p *proc) over(kept time.Duration) bool {
	at, ended := p.session.Ended()
	return ended && time.Since(at) >= kept
}

// find returns a process that runs, or that ended no longer ago than kept. Of several with
// one PID it is the newest.
func (ps *procs) find(c call, agent session.Agent, which *pb.ProcessSelector, kept time.Duration) (*proc, error) {
	if which.GetSelector() == nil {
		return nil, corral.Errorf(errors.ErrUnsupported, "name it by pid or tag", "no process is named")
	}
	of := ps.take(c, agent)
	defer of.mu.Unlock()
	for _, p := range slices.Backward(of.list) {
		if p.matches(which) && !p.over(kept) {
			return p, nil
		}
	}
	if tag := which.GetTag(); tag != "" {
		return nil, corral.Errorf(corral.ErrNotFound, "", "process with tag %.80q not found", tag)
	}
	return nil, corral.Errorf(corral.ErrNotFound, "", "process with pid %d not found", which.GetPid())
}

// running are the processes that run.
func (ps *procs) running(c call, agent session.Agent) []*proc {
	of := ps.take(c, agent)
	defer of.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(of.list), func(p *proc) bool { return p.over(0) })
}
