package e2b

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/session"
)

// A call is one of a client to a sandbox.
type call struct {
	context.Context
	box  Box
	user string // that it names; empty: none
}

func callOf(ctx context.Context, h http.Header) (call, error) {
	b, ok := ctx.Value(boxKey{}).(Box)
	if !ok {
		return call{}, errGone("")
	}
	return call{ctx, b, cmp.Or(basicUser(h), b.Preset.User)}, nil
}

func (s *Server) start(c call, req *connect.Request[pb.StartRequest], to *connect.ServerStream[pb.ProcessResponse]) error {
	if err := s.checkUser(c); err != nil {
		return err
	}
	p, err := s.begin(c, req.Msg)
	if err != nil {
		return err
	}
	return s.follow(c, p, req.Header(), 0, to.Send)
}

// begin starts a process. It goes on without its client; the client's deadline is the
// process's.
func (s *Server) begin(c call, req *pb.StartRequest) (*proc, error) {
	cfg := req.GetProcess()
	cmd := corral.Command{
		ID: c.box.ID + "." + corral.NewID()[:12], Host: corral.HostSandbox,
		Args: append([]string{cfg.GetCmd()}, cfg.GetArgs()...), Dir: cmp.Or(cfg.GetCwd(), c.box.Preset.Dir), Env: map[string]string{},
		Stdin: req.Stdin == nil || *req.Stdin, Grace: -1,
		Decided: decided.About{Fresh: true}, // the ID: it is looked for nowhere
	}
	if home := c.home(); cmd.Dir == "" && home != Home { // else commands are there anyway
		cmd.Dir = home
	}
	for _, env := range []map[string]string{c.account(), c.box.Preset.Env, c.box.Env, cfg.GetEnvs()} {
		maps.Copy(cmd.Env, env)
	}
	if t := req.GetTag(); len(t) > maxTag {
		return nil, corral.Errorf(corral.ErrInvalid, "", "the tag has more than %d bytes", maxTag)
	}
	cmd.Description = req.GetTag() // by which it is found in a later life, too
	if req.Pty != nil {
		size, err := sizeOf(req.Pty)
		if err != nil {
			return nil, err
		}
		cmd.TTY = &size
	}
	if deadline, ok := c.Deadline(); ok {
		if cmd.Timeout = time.Until(deadline); cmd.Timeout <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	begun, err := s.cfg.Sessions.Agent(c.box.Agent).Begin(context.WithoutCancel(c), session.Options{Command: cmd, Background: true, Linger: keptEnd})
	if err != nil {
		return nil, err
	}
	return s.procs.add(c, s.cfg.Sessions.Agent(c.box.Agent), begun, req), nil
}

const maxTag = 256 // bytes

func sizeOf(p *pb.PTY) (corral.Size, error) {
	rows, cols := p.GetSize().GetRows(), p.GetSize().GetCols()
	if rows > math.MaxUint16 || cols > math.MaxUint16 {
		return corral.Size{}, corral.Errorf(corral.ErrInvalid, "", "a terminal cannot have %d rows and %d columns", rows, cols)
	}
	return corral.Size{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// attach follows a process that was started before, from where the last client was cut off,
// or, if another one follows it, from now on.
func (s *Server) attach(c call, req *connect.Request[pb.ProcessRequest], to *connect.ServerStream[pb.ProcessResponse]) error {
	p, err := s.procs.find(c, s.cfg.Sessions.Agent(c.box.Agent), req.Msg.GetProcess(), keptEnd)
	if err != nil {
		return err
	}
	from, alone := p.rest()
	if !alone {
		st, err := p.session.Log().Stat(c)
		if err != nil {
			return err
		}
		from = st.Size
	}
	return s.follow(c, p, req.Header(), from, to.Send)
}

// keptEnd is how long a process is found after its end, by a client that was cut off.
const keptEnd = 30 * time.Second

// piece is how much output goes into an event.
const piece = 32 << 10

// follow sends what a process does, from an offset of its output to its end.
func (s *Server) follow(c call, p *proc, h http.Header, from int64, answer func(*pb.ProcessResponse) error) error {
	send := func(e *pb.ProcessEvent) error { return answer(&pb.ProcessResponse{Event: e}) }
	p.join(from)
	defer p.leave()
	defer p.session.Hold()()
	if err := send(&pb.ProcessEvent{Event: &pb.ProcessEvent_Start{Start: &pb.ProcessEvent_StartEvent{Pid: p.pid}}}); err != nil {
		return err
	}
	log, idle, buf := p.session.Log(), keepAlive(h), make([]byte, piece)
	for off := from; ; {
		ctx, cancel := context.WithTimeout(c, idle)
		chunk, err := log.Read(ctx, off, buf)
		cancel()
		switch {
		case err == nil && chunk.Offset > off:
			p.sentTo(chunk.Offset) // the next client gets what is kept
			return corral.Errorf(corral.ErrLost, "read it faster, or write less", "%d bytes of the output are not kept any more", chunk.Offset-off)
		case err == nil:
			if err := send(p.data(chunk)); err != nil {
				return err
			}
			off = chunk.Next()
			p.sentTo(off)
		case errors.Is(err, io.EOF):
			return s.sendEnd(c, p, send)
		case c.Err() != nil:
			return s.cut(c, p)
		case errors.Is(err, context.DeadlineExceeded):
			if err := send(&pb.ProcessEvent{Event: &pb.ProcessEvent_Keepalive{Keepalive: &emptypb.Empty{}}}); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// cut is why a stream ends before its process.
func (s *Server) cut(c call, p *proc) error {
	if errors.Is(c.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time-out of the request is over"))
	}
	if cause := context.Cause(c); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // the gateway stops, or the key has ended
	}
	return c.Err()
}

// keepAlive is how long a stream may be silent.
func keepAlive(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Keepalive-Ping-Interval"), 10, 16)
	if err != nil || n == 0 {
		n = 90
	}
	return time.Duration(n) * time.Second
}

// sendEnd sends how a process ended.
func (s *Server) sendEnd(c call, p *proc, send func(*pb.ProcessEvent) error) error {
	exit, err := p.session.Wait(c)
	if err != nil {
		if c.Err() != nil {
			return s.cut(c, p)
		}
		if _, ok := s.cfg.Store.Get(c.box.ID); !ok || s.over(c.box) { // killed with the sandbox
			return corral.Errorf(corral.ErrUnavailable, "", "the sandbox was killed")
		}
		return err
	}
	if exit.Reason == corral.ReasonTimeout {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time-out of the command is over, and it was killed"))
	}
	end := &pb.ProcessEvent_EndEvent{ExitCode: int32(exit.Code), Exited: exit.Signal == 0, Status: "exit status " + strconv.Itoa(exit.Code)}
	if exit.Signal != 0 {
		end.Status = "signal: " + syscall.Signal(exit.Signal).String() // killed, not SIGKILL
	}
	if exit.Code != 0 || exit.Signal != 0 {
		end.Error = &end.Status
	}
	holdLast(c)
	return send(&pb.ProcessEvent{Event: &pb.ProcessEvent_End{End: end}})
}

func (s *Server) proc(c call, which *pb.ProcessSelector) (*proc, error) {
	return s.procs.find(c, s.cfg.Sessions.Agent(c.box.Agent), which, 0)
}

// onProc does something with the process that a request names.
func onProc[Q interface{ GetProcess() *pb.ProcessSelector }](s *Server, do func(call, *proc, Q) error) func(call, Q) (*emptypb.Empty, error) {
	return func(c call, q Q) (*emptypb.Empty, error) {
		p, err := s.proc(c, q.GetProcess())
		if err != nil {
			return nil, err
		}
		return &emptypb.Empty{}, do(c, p, q)
	}
}

func (s *Server) listProcesses(c call, _ *emptypb.Empty) (*pb.ListResponse, error) {
	a := &pb.ListResponse{}
	for _, p := range s.procs.running(c, s.cfg.Sessions.Agent(c.box.Agent)) {
		a.Processes = append(a.Processes, p.info())
	}
	return a, nil
}

func update(c call, p *proc, q *pb.UpdateRequest) error {
	if q.Pty == nil {
		return nil
	}
	size, err := sizeOf(q.Pty)
	if err != nil {
		return err
	}
	return p.session.Resize(c, size)
}

// input is what is in a request for a process. One with a terminal takes it from there.
func input(in *pb.ProcessInput) []byte {
	if b := in.GetPty(); b != nil {
		return b
	}
	return in.GetStdin()
}

func sendInput(c call, p *proc, q *pb.SendInputRequest) error {
	_, err := p.session.Write(c, input(q.GetInput()))
	return err
}

func (s *Server) streamInput(ctx context.Context, from *connect.ClientStream[pb.StreamInputRequest]) (*connect.Response[emptypb.Empty], error) {
	c, err := callOf(ctx, from.RequestHeader())
	if err == nil {
		err = s.passInput(c, from)
	}
	if err != nil {
		return nil, rpcError(err)
	}
	return connect.NewResponse(&emptypb.Empty{}), nil
}

func (s *Server) passInput(c call, from *connect.ClientStream[pb.StreamInputRequest]) (err error) {
	var p *proc
	for from.Receive() {
		switch e := from.Msg().GetEvent().(type) {
		case *pb.StreamInputRequest_Start:
			if p, err = s.proc(c, e.Start.GetProcess()); err != nil {
				return err
			}
		case *pb.StreamInputRequest_Data:
			if p == nil {
				return corral.Errorf(corral.ErrInvalid, "send start first", "there is input for no process")
			}
			if _, err := p.session.Write(c, input(e.Data.GetInput())); err != nil {
				return err
			}
		}
	}
	return from.Err()
}

func sendSignal(c call, p *proc, q *pb.SendSignalRequest) error {
	switch q.GetSignal() {
	case pb.Signal_SIGNAL_SIGKILL, pb.Signal_SIGNAL_SIGTERM:
		return p.session.Signal(c, corral.Signal(q.GetSignal()))
	}
	return corral.Errorf(corral.ErrInvalid, "use SIGTERM or SIGKILL", "the signal %d is not sent", q.GetSignal())
}

func closeStdin(c call, p *proc, _ *pb.ProcessRequest) error { return p.session.CloseStdin(c) }
