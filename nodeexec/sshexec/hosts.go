package sshexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/streamexec"
	"github.com/corral-exec/corral/pathenv"
)

// Prefix begins the names of these nodes.
const Prefix = "ssh:"

// Config of Hosts. StateDir, Allowed and Home are required.
type Config struct {
	// StateDir holds logs and records; made if it does not exist.
	StateDir string
	// Allowed are the hosts that commands may go to, as [user@]host[:port], without the
	// prefix. A name has to match one of them exactly. It is called often.
	Allowed func() []string

	// Home is the home directory of this program's account, where .ssh is.
	Home string
	// User is the account to log in to if neither the name nor ssh_config names one.
	// Empty: the name of this program's account.
	User string
	// SystemDir has ssh_config and ssh_known_hosts. Empty: /etc/ssh.
	SystemDir string
	// AgentSocket is the socket of an SSH agent. Empty: there is none.
	AgentSocket string

	// Retain is how long an ended process is kept if it is not removed. 0: a week.
	Retain time.Duration
	// Profile chooses the marker variables.
	Profile pathenv.Profile
	Log     *slog.Logger

	keepalive time.Duration // between two checks of a server
	idle      time.Duration // how long a connection without a session is kept
	leave     time.Duration // how long Close lets servers answer
}

// Hosts are the SSH hosts that commands can go to. Every method may be called
// from any goroutine.
type Hosts struct {
	cfg   Config
	log   *slog.Logger
	procs *streamexec.Processes
	owned sync.WaitGroup // goroutines of connections and sessions

	mu     sync.Mutex
	hosts  map[string]*host
	closed bool
}

// New makes Hosts. They connect when there is a command. Close closes them.
func New(cfg Config) (*Hosts, error) {
	cfg.SystemDir = cmp.Or(cfg.SystemDir, "/etc/ssh")
	cfg.Retain = cmp.Or(cfg.Retain, 7*24*time.Hour)
	cfg.keepalive = cmp.Or(cfg.keepalive, 15*time.Second)
	cfg.idle = cmp.Or(cfg.idle, time.Minute)
	cfg.leave = cmp.Or(cfg.leave, 5*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	all := &Hosts{cfg: cfg, log: cfg.Log, hosts: map[string]*host{}}
	var err error
	all.procs, err = streamexec.Open(streamexec.Options{
		Dir: cfg.StateDir, Retain: cfg.Retain, Name: "the gateway's SSH client",
		Signal: all.signal, Unseen: unseen, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Close closes every connection. Commands that run are lost.
func (all *Hosts) Close() error {
	disconnect := sync.OnceFunc(all.disconnect)
	late := time.AfterFunc(all.cfg.leave, disconnect) // commands may wait for a server
	err := all.procs.Close()
	late.Stop()
	disconnect()
	all.owned.Wait()
	return err
}

func (all *Hosts) disconnect() {
	all.mu.Lock()
	hosts := all.hosts
	all.hosts, all.closed = map[string]*host{}, true
	all.mu.Unlock()
	for _, h := range hosts {
		h.close()
	}
}

// unseen is the error of a process whose end this program has not seen.
func unseen(id string) error {
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice. Commands outlive the gateway on a node that runs corral node",
		"it is not known how process %s ended: the gateway ended before it, and finding an SSH session again is an %w", id, errors.ErrUnsupported)
}

// Select returns the executor of a host by its name with the prefix. It does not
// connect. The error is ErrDenied for a host that is not allowed, and ErrInvalid for an
// invalid name.
func (all *Hosts) Select(name string) (corral.Executor, error) {
	h, err := all.host(strings.TrimPrefix(name, Prefix))
	if err != nil {
		return nil, err
	}
	return &executor{h}, nil
}

// host returns an allowed host.
func (all *Hosts) host(name string) (*host, error) {
	if _, err := parseDestination(name); err != nil {
		return nil, err
	}
	if allowed := all.cfg.Allowed(); !slices.Contains(allowed, name) {
		hint := fmt.Sprintf("the operator can allow it in the configuration: nodes: { ssh: [%q] }", name)
		if len(allowed) == 0 {
			return nil, corral.Errorf(corral.ErrDenied, hint, "cannot use node %q: no SSH host is allowed", Prefix+name)
		}
		return nil, corral.Errorf(corral.ErrDenied, hint, "cannot use node %q: the SSH hosts that are allowed are %s", Prefix+name, strings.Join(allowed, ", "))
	}
	return all.known(name)
}

// known returns a host, whether or not it is allowed.
func (all *Hosts) known(name string) (*host, error) {
	dest, err := parseDestination(name)
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, errClosed
	}
	h := all.hosts[name]
	if h == nil {
		h = &host{all: all, name: name, dest: dest, dialling: make(chan struct{}, 1)}
		all.hosts[name] = h
	}
	return h, nil
}

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the gateway's SSH client is closed")

// Attach returns a process, on any host; see corral.Executor.
func (all *Hosts) Attach(ctx context.Context, id string) (corral.Process, error) {
	return all.procs.Attach(ctx, id)
}

// A Listed is an allowed host.
type Listed struct {
	Name string // with the prefix
	// Connected: there is a connection now. Connections begin with a command, and end
	// some time after it.
	Connected bool
}

// List returns the allowed hosts, in their configured order.
func (all *Hosts) List() []Listed {
	list := []Listed{}
	for _, name := range all.cfg.Allowed() {
		l := Listed{Name: Prefix + name}
		all.mu.Lock()
		h := all.hosts[name]
		all.mu.Unlock()
		if h != nil {
			h.mu.Lock()
			l.Connected = len(h.conns) > 0
			h.mu.Unlock()
		}
		list = append(list, l)
	}
	return list
}

// An executor is a corral.Executor of one host.
type executor struct{ h *host }

// Start implements corral.Executor.
func (x *executor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.h.all.procs.Start(ctx, x.h, cmd)
	if err != nil {
		return nil, err
	}
	if at := p.Info().Node; at != x.h.node() {
		return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for a command on %s", p.Info().ID, at)
	}
	return p, nil
}

// Attach implements corral.Executor.
func (x *executor) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := x.h.all.procs.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if at := p.Info().Node; at != x.h.node() {
		return nil, corral.Errorf(corral.ErrNotFound, "", "process %s is not on %s but on %s", id, x.h.node(), at)
	}
	return p, nil
}

// files of SSH in the account's home and of the system.
func (all *Hosts) own(name string) string    { return filepath.Join(all.cfg.Home, ".ssh", name) }
func (all *Hosts) system(name string) string { return filepath.Join(all.cfg.SystemDir, name) }

// exists is true also if the file cannot be checked; reading it says why.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
