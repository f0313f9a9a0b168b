package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/state/selfcert"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

// sessionsDir is where the table of sessions is, in the state directory.
const sessionsDir = "sessions"

// GatewayOptions are those of a gateway. What they leave out is as configured.
type GatewayOptions struct {
	Options
	StateDir string
	Alone    bool // it listens nowhere, for a client of this process

	Listen    string // ADDRESS:PORT of TCP; empty: as configured
	Nodes     string // where nodes connect to
	WebSocket string // by WebSocket
	Advertise string // what they are told of that

	Timeout     *time.Duration // of commands that do not say; 0: none
	PathPrepend []string       // before that of the configuration
	Elevated    bool           // calls may leave the sandbox
	MaxSessions int            // of an agent, that run
	Retention   session.Retention

	// Doctor makes the checks that are shown on the console. Nil: none are.
	Doctor func(context.Context) []api.Finding
}

// A Gateway is a gateway: executors, the sessions on them, and an HTTP server
// before those.
type Gateway struct {
	opt *GatewayOptions
	dir string // the state directory
	log *slog.Logger

	listeners []net.Listener
	hosts     *hosts
	hub       *hub.Hub // nil if it does not listen for nodes
	sessions  *session.Manager
	server    *gateway.Server
	keys      *access.Store
	signIns   *access.SignIns
	e2b       *e2b.Server // nil: clients of E2B are not served

	stopTracing func(context.Context) error

	mcp    mcpServers
	shells shells

	stopping     context.Context // from then on nobody is waited for who may answer an approval
	drain        context.CancelFunc
	approvalWait time.Duration

	recorded atomic.Bool // in the state directory
	closing  sync.Once
	closed   error
}

// OpenGateway takes the state directory and makes everything ready. Clients
// that connect meanwhile wait.
func OpenGateway(ctx context.Context, opt GatewayOptions) (_ *Gateway, err error) {
	o, listen := &opt, !opt.Alone
	s := &Gateway{opt: o, dir: o.StateDir, log: o.Log, approvalWait: approvalWait}
	s.stopping, s.drain = context.WithCancel(context.Background())
	s.mcp.make = s.newMCP
	s.mcp.life, s.mcp.end = context.WithCancel(context.Background())
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "give --state-dir a directory that can be written", "cannot make the state directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if listen {
		if err := s.listen(); err != nil {
			return nil, err
		}
	}
	if env, err := pathenv.Gateway(pathenv.GatewayOptions{Inherited: o.Environ}); err == nil {
		for _, text := range env.Warnings() { // results have the names alone
			s.log.Info(text)
		}
	}
	shared := alone
	if listen {
		shared = s.openNodes
	}
	if s.hosts, err = openHosts(&o.Options, s.dir, o.Elevated, shared); errors.Is(err, corral.ErrConflict) {
		return nil, s.taken() // by one without that socket, such as corral mcp
	} else if err != nil {
		return nil, err
	}
	s.hosts.pathPrepend, s.hosts.timeout = o.PathPrepend, s.timeout
	if listen {
		if err := s.listenAsConfigured(s.hosts.policies.live.Config().Gateway); err != nil {
			return nil, err
		}
	}
	if s.hub != nil {
		s.hosts.use(s.hub.Nodes())
	}
	if s.hosts.e2b, err = e2b.OpenStore(filepath.Join(s.dir, e2bDir)); err != nil {
		return nil, err
	}
	sessions := session.Config{
		Dir: filepath.Join(s.dir, sessionsDir), Executor: s.hosts.executor, Kept: s.hosts.kept,
		Retention: o.Retention, MaxRunning: o.MaxSessions, Log: s.log,
	}
	if s.hub != nil && s.hub.Shared() {
		sessions.Elsewhere = s.hub.Nodes().Attach
	}
	if s.sessions, err = session.Open(ctx, sessions); errors.Is(err, syscall.EAGAIN) {
		return nil, s.taken()
	} else if err != nil {
		return nil, err
	}
	if s.keys, err = access.Open(filepath.Join(s.dir, api.KeysFile)); err != nil {
		return nil, err
	}
	s.undoPatches(ctx)
	s.hosts.policies.serve(s.sessions, s.keys)
	if !listen {
		return s, s.writeRecord()
	}
	return s, s.makeServer(ctx)
}

func (s *Gateway) makeServer(ctx context.Context) error {
	cfg := gateway.Config{
		Sessions: s.sessions, Tools: s.tools, MCP: &s.mcp, Files: s.hosts.files, DialPort: s.hosts.dialPort, DialNode: s.hosts.dialNode, Log: s.log,
		Approvals: answers{s.hosts.policies.desk}, Rules: s.hosts.policies.file,
		Policy: hostPolicy{s.hosts}, Configuration: configuration{s.hosts.policies.live, s.opt.configFlags()}, Doctor: s.opt.Doctor,
	}
	as := s.hosts.policies.live.Config().Gateway
	var err error
	cfg.Keys = s.keys
	if cfg.SignIns, err = access.OpenSignIns(filepath.Join(s.dir, api.SignInFile)); err != nil {
		s.log.Warn("browsers have to sign in to the console again", "error", err)
	}
	s.signIns = cfg.SignIns
	if cfg.TLS, err = s.certificate(s.hosts.policies.live.Config().Gateway.TLS); err != nil {
		return err
	}
	cfg.Hosts, cfg.Origins = as.Hosts.Value, as.Origins.Value
	if err := s.portHosts(&cfg, as.Domain); err != nil {
		return err
	}
	cfg.SSHNodes = s.hosts.sshNodes
	if s.hub != nil {
		cfg.Nodes = s.hub
	}
	if slices.ContainsFunc(s.listeners, overTCP) {
		token, err := gateway.Token(filepath.Join(s.dir, api.TokenFile), s.log)
		if err != nil {
			return err
		}
		cfg.Token = token
	}
	s.e2b = e2b.New(e2b.Config{
		Store: s.hosts.e2b, Sessions: s.sessions, Sandboxes: e2bSandboxes{s.keeper(), s}, Grant: s.keys.Grant, Domain: cfg.Domain, CodeImage: images.Code, Log: s.log,
		Settings: func() config.E2B { return s.hosts.policies.live.Config().Gateway.E2B },
	})
	cfg.E2B = s.e2b
	cfg.Prune, cfg.Pools = s.hosts.tidyUp, s.hosts.pools
	cfg.Sandboxes = watched{s.keeper(), s.hosts, s.e2b}
	if cfg.Tracer, s.stopTracing, err = gateway.Tracing(ctx); err != nil {
		return err
	}
	s.server, err = gateway.New(cfg)
	return err
}

// portSecretFile has what tokens of sandboxes are made with.
const portSecretFile = "ports.secret"

// portHosts gives ports of sandboxes host names, if the configuration has a domain.
func (s *Gateway) portHosts(cfg *gateway.Config, domain policy.Setting[string]) (err error) {
	if cfg.Domain, err = ports.Parse(domain.Value); err != nil || cfg.Domain.IsZero() {
		return err
	}
	secret, err := gateway.Token(filepath.Join(s.dir, portSecretFile), s.log)
	if err != nil {
		return err
	}
	cfg.PortSecret = ports.Secret(secret)
	cfg.PublicPorts = func(agent string) bool {
		return s.hosts.policies.agent(agent).Sandbox.AllowPublicTraffic.Value
	}
	return nil
}

func overTCP(l net.Listener) bool { return l.Addr().Network() != "unix" }

// listen takes the sockets that systemd hands in, or makes them. The Unix
// socket is made in any case: it is how others find this gateway.
func (s *Gateway) listen() error {
	handed, err := listen.Activated()
	if err != nil {
		return err
	}
	s.listeners = handed
	path := filepath.Join(s.dir, api.SocketFile)
	if err := s.listenUnix(path); errors.Is(err, corral.ErrConflict) {
		return s.taken()
	} else if err != nil {
		return err
	}
	if s.opt.Listen == "" {
		return nil
	}
	return s.listenTCP("--listen", s.opt.Listen)
}

// listenUnix listens on a socket, unless it was handed in.
func (s *Gateway) listenUnix(path string) error {
	if slices.ContainsFunc(s.listeners, func(l net.Listener) bool { return l.Addr().String() == path }) {
		return nil
	}
	l, err := listen.Unix(path)
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	return nil
}

// listenTCP listens where what says.
func (s *Gateway) listenTCP(what, at string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "give "+what+" another port, or 0 for any", "cannot listen on %s: %w", at, err)
	}
	s.listeners = append(s.listeners, l)
	return nil
}

// listenAsConfigured listens where the configuration says, too.
func (s *Gateway) listenAsConfigured(c config.Gateway) error {
	tcp := func(key string, at policy.Setting[string]) error {
		if err := CheckListen(fmt.Sprintf("%s %q (%s)", key, at.Value, at.Source), at.Value); err != nil {
			return err
		}
		return s.listenTCP(key, at.Value)
	}
	if c.Listen.Value != "" && s.opt.Listen == "" {
		if err := tcp("gateway.listen", c.Listen); err != nil {
			return err
		}
	}
	if c.E2B.Listen.Value != "" {
		if err := tcp("gateway.e2b.listen", c.E2B.Listen); err != nil {
			return err
		}
		last := len(s.listeners) - 1
		s.listeners[last] = gateway.ForE2B(s.listeners[last])
	}
	if c.Socket.Value == "" {
		return nil
	}
	path := filepath.Clean(config.ExpandHome(c.Socket.Value, AccountHome()))
	if err := s.listenUnix(path); err != nil {
		return fmt.Errorf("gateway.socket (%s): %w", c.Socket.Source, err)
	}
	return nil
}

// taken says who has the state directory.
func (s *Gateway) taken() error {
	if r := LoneRecord(s.dir); r != nil {
		return corral.Errorf(corral.ErrConflict, LoneHint+"; or give this one another --state-dir",
			"corral mcp (pid %d) is the gateway of the state directory %s, for its own client alone", r.PID, s.dir)
	}
	who := "another gateway"
	if r, err := ReadRecord(s.dir); err == nil && r != nil {
		who = fmt.Sprintf("another gateway (pid %d)", r.PID)
	}
	return corral.Errorf(corral.ErrConflict, "corral gateway status says more; stop that one, or give this one another --state-dir",
		"%s uses the state directory %s", who, s.dir)
}

// drainPause is what is left for answers after the sessions went to the
// background, before clients that listen over MCP are let go of.
const drainPause = time.Second

// Serve serves until ctx ends or Close is called, and lets go of everything. One that is
// alone it leaves as it is.
func (s *Gateway) Serve(ctx context.Context) (err error) {
	if s.server == nil {
		return corral.Errorf(corral.ErrInvalid, "open it with Serve in its options", "the gateway listens nowhere, so that there is nobody to serve")
	}
	if s.stopping.Err() != nil {
		return corral.Errorf(corral.ErrUnavailable, "open it again", "the gateway is closed")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.writeRecord(); err != nil {
		// On a full disk, for one. What runs is looked after all the same.
		s.log.Warn("other commands cannot be told about this gateway", "error", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan struct{})
	var owned sync.WaitGroup
	beside, end := context.WithCancel(ctx) // also when it cannot serve
	defer end()
	owned.Go(func() {
		s.lookOnce(beside)
		s.hosts.tidy(beside)
	})
	owned.Go(func() { s.hosts.keepPool(beside) })
	owned.Go(func() {
		select {
		case <-served:
			return
		case <-ctx.Done():
		}
		s.log.Info("stopping; another signal stops at once")
		s.drain()
		s.sessions.Drain()
		stop()
		select {
		case <-served:
		case <-time.After(drainPause):
			s.mcp.close(s.log)
		}
	})
	err = s.server.Serve(serving, s.listeners...)
	if errors.Is(err, net.ErrClosed) { // by Close
		err = nil
	}
	close(served)
	end()
	owned.Wait()
	return err
}

// lookOnce says what commands in a sandbox would stumble over.
func (s *Gateway) lookOnce(ctx context.Context) {
	if s.mode() == ModeOff {
		s.log.Warn("the sandbox is off: commands meant for it run on this machine, in no container and with no approval", "hint", "set sandbox.mode=all")
		return
	}
	eng, err := s.opt.Backends.Engine(ctx, s.hosts.engineOf(""))
	if err == nil {
		err = s.lookAt(ctx, eng)
		err = errors.Join(err, eng.Close())
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the sandbox is on, and its engine cannot be used: what is meant for a sandbox fails until it can", "error", err, "hint", corral.Hint(err))
	}
}

func (s *Gateway) lookAt(ctx context.Context, eng Engine) error {
	facts, err := eng.Facts(ctx)
	if err != nil {
		return err
	}
	image := cmp.Or(s.opt.Settings.Image, images.Default)
	for _, f := range []doctor.Finding{doctor.Runtimes(facts, s.opt.Settings.Runtime), doctor.Image(ctx, image, eng.Images())} {
		if f.Status != doctor.OK {
			s.log.Warn(f.Summary, "meaning", f.Meaning, "hint", f.Fix)
		}
	}
	removed, err := eng.Sweep(ctx, s.dir)
	if len(removed) > 0 {
		s.log.Info("removed containers that nobody will use again", "containers", removed)
	}
	return err
}

// writeRecord tells other commands about this gateway, until Close.
func (s *Gateway) writeRecord() error {
	s.recorded.Store(true)
	return s.record().Write(s.dir)
}

func (s *Gateway) record() Record {
	r := Record{
		PID: os.Getpid(), Version: s.opt.Version, StartedAt: time.Now().UTC(),
		Sandbox: s.mode(), AllowElevated: s.opt.Elevated, Workspace: s.opt.SettingsOf(s.hosts.policies.agent(session.DefaultAgent)).Workspace.Dir,
		Image: cmp.Or(s.opt.Settings.Image, images.Default), Engine: s.hosts.engineOf(""),
	}
	if s.hub != nil {
		r.Nodes = s.hub.Listens()
	}
	for _, l := range s.listeners {
		if overTCP(l) {
			r.Listen = append(r.Listen, l.Addr().String())
		} else if r.Socket == "" { // the first is that of the state directory, or systemd's
			r.Socket = l.Addr().String()
		}
	}
	return r
}

// Close closes listeners first, then sessions, then hosts. Further calls wait for the
// first, and return its error.
func (s *Gateway) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Gateway) close() error {
	var errs []error
	s.drain()
	s.mcp.close(s.log)
	for _, l := range s.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // the server closes those it served on
			errs = append(errs, err)
		}
	}
	if s.hosts != nil {
		s.hosts.policies.stop()
	}
	if s.e2b != nil {
		s.e2b.Close()
	}
	if s.sessions != nil {
		errs = append(errs, s.sessions.Close())
	}
	if s.hosts != nil {
		errs = append(errs, s.hosts.Close())
	}
	if s.hub != nil {
		errs = append(errs, s.hub.Close())
	}
	if s.keys != nil {
		s.keys.Close()
	}
	if s.signIns != nil {
		s.signIns.Close()
	}
	if s.stopTracing != nil {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		errs = append(errs, s.stopTracing(ctx))
	}
	if s.recorded.Load() { // else there may be that of another one, with the same PID in its container
		errs = append(errs, removeRecord(s.dir, os.Getpid()))
	}
	return errors.Join(errs...)
}

// Agent is an agent, with its sessions.
func (s *Gateway) Agent(name string) session.Agent { return s.sessions.Agent(name) }

// Tools are all tools of an agent that works with a model.
func (s *Gateway) Tools(agent, model string) mcp.Tools { return agentTools{s, agent, model} }

// newTools are the tools exec and process of an agent, as the configuration says now.
func (s *Gateway) newTools(agent string) *tool.Tools {
	c := s.hosts.policies.agent(agent)
	exec := c.Tools.Exec
	d := tool.Defaults{
		Timeout: s.timeout(c),
		Yield:   exec.YieldMs.Value, NotifyOnExit: &exec.NotifyOnExit.Value,
	}
	if d.Timeout == 0 {
		d.Timeout = -1 // none, in the words of package tool
	}
	return tool.New(tool.Config{
		Agent: s.sessions.Agent(agent), Defaults: d, Guard: s.hosts.policies.guard,
		Allowed:    func(name string) error { return may(c, config.Tool(name)) },
		AttachPath: func(id string) string { return "/v1/sessions/" + id + "/attach" },
		Log:        s.log,
	})
}

// mode is the sandbox's, for agents that are not configured otherwise.
func (s *Gateway) mode() string {
	return s.opt.SettingsOf(s.hosts.policies.agent(session.DefaultAgent)).Mode
}

// CheckListen refuses what is no address. The error calls it what.
func CheckListen(what, at string) error {
	if !IsAddress(at) {
		return corral.Errorf(corral.ErrInvalid, "write it like 127.0.0.1:7777", "%s is no address and port", what)
	}
	return nil
}

// certificate is what the gateway shows to clients over TCP; nil if it is to show none.
func (s *Gateway) certificate(c config.TLS) (*tls.Config, error) {
	cert, key := c.Cert.Value, c.Key.Value
	switch {
	case c.Self.Value && cert+key != "":
		return nil, corral.Errorf(corral.ErrInvalid, "leave out self, or cert and key", "gateway.tls has both a certificate and self")
	case c.Self.Value:
		own, err := selfcert.Load(filepath.Join(s.dir, certificateFile), "the gateway", "have clients log in again: corral login")
		if err != nil {
			return nil, err
		}
		s.log.Info("the gateway shows a certificate of its own", "fingerprint", selfcert.Fingerprint(own.Certificate[0]))
		return listen.WithCertificate(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }), nil
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, corral.Errorf(corral.ErrInvalid, "set both, or gateway.tls.self", "gateway.tls has only one of cert and key")
	}
	home := AccountHome()
	return listen.TLS(config.ExpandHome(cert, home), config.ExpandHome(key, home), s.log)
}

// certificateFile has the certificate of the gateway's own, and its key.
const certificateFile = "gateway.pem"

// IsAddress reports whether s is ADDRESS:PORT.
func IsAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	_, perr := strconv.ParseUint(port, 10, 16)
	return err == nil && perr == nil
}
