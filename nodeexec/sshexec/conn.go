package sshexec

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
)

const (
	// dialTime bounds a connection, from the first packet to the login.
	dialTime = 30 * time.Second
	// maxSessions is the number of sessions that OpenSSH allows a connection by
	// default. A server that allows fewer says so.
	maxSessions = 10
	// maxConns bounds the connections to a host.
	maxConns = 32
	// maxExtra bounds further ones for questions alone, by which commands are ended.
	maxExtra = 4
	// maxJumps bounds the hosts on the way to a host.
	maxJumps = 8
)

// clientVersion is this program's name in the protocol.
const clientVersion = "SSH-2.0-Corral"

// host is an SSH host that commands run on.
type host struct {
	all      *Hosts
	name     string
	dest     destination
	dialling chan struct{} // holds a token while a call dials

	mu     sync.Mutex
	conns  []*conn
	closed bool
	paths  *paths // nil until asked
	fails  int    // calls that could not connect
	failed error  // of the last one
}

func (h *host) node() string { return Prefix + h.name }

// conn is a connection that sessions share.
type conn struct {
	client *ssh.Client
	hops   []*ssh.Client // jump hosts on the way, the first one first
	dead   chan struct{} // closed when it has ended
	extra  bool          // it is for questions alone

	// Guarded by host.mu.
	used int
	had  bool      // the server has opened a session
	full bool      // the server refused a session while others were open
	idle time.Time // since when it has no session
}

func (c *conn) close() {
	// Errors of closing a given-up connection do not matter.
	_ = c.client.Close()
	for _, hop := range slices.Backward(c.hops) {
		_ = hop.Close()
	}
}

// alive sends a request. If the server answers, all earlier messages have arrived.
func (c *conn) alive() error {
	_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

// acquire returns a connection with room for a session, and reserves the room until
// release. question: the session is no command's.
func (h *host) acquire(ctx context.Context, question bool) (*conn, error) {
	if c := h.free(question); c != nil {
		return c, nil
	}
	h.mu.Lock()
	fails := h.fails
	h.mu.Unlock()
	select {
	case h.dialling <- struct{}{}:
		defer func() { <-h.dialling }()
	case <-ctx.Done():
		return nil, h.unavailable(ctx.Err())
	}
	if c := h.free(question); c != nil {
		return c, nil
	}
	h.mu.Lock()
	count, closed, failed := 0, h.closed, h.failed
	for _, c := range h.conns {
		if !c.extra {
			count++
		}
	}
	extra := count >= maxConns
	full := extra && (!question || len(h.conns) >= maxConns+maxExtra)
	if h.fails == fails {
		failed = nil
	}
	h.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case failed != nil: // this call has waited for that one
		return nil, h.unavailable(failed)
	case full:
		return nil, corral.Errorf(corral.ErrUnavailable, "wait until one of them has ended", "cannot run more commands on %s: %d connections are full", h.node(), count)
	}
	client, hops, err := h.all.dial(ctx, h.dest, 0)
	if err != nil {
		if ctx.Err() == nil {
			h.mu.Lock()
			h.fails, h.failed = h.fails+1, err
			h.mu.Unlock()
		}
		return nil, h.unavailable(err)
	}
	c := &conn{client: client, hops: hops, dead: make(chan struct{}), used: 1, extra: extra}
	h.mu.Lock()
	closed = h.closed
	if !closed {
		h.conns = append(h.conns, c)
		h.all.owned.Add(2)
	}
	h.mu.Unlock()
	if closed {
		c.close()
		return nil, errClosed
	}
	go func() {
		defer h.all.owned.Done()
		err := c.client.Wait()
		h.all.log.Debug("an SSH connection has ended", "node", h.node(), "error", err)
		h.drop(c)
		close(c.dead)
	}()
	go func() {
		defer h.all.owned.Done()
		h.keep(c)
	}()
	return c, nil
}

// connect ensures that there is a connection.
func (h *host) connect(ctx context.Context) error {
	h.mu.Lock()
	connected := len(h.conns) > 0
	h.mu.Unlock()
	if connected {
		return nil
	}
	c, err := h.acquire(ctx, false)
	if err == nil {
		h.release(c)
	}
	return err
}

func (h *host) unavailable(err error) error {
	hint := corral.Hint(err)
	if hint == "" {
		hint = "try it by hand as the gateway's user: ssh " + h.name
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "cannot connect to %s: %w", h.node(), err)
}

// free returns the fullest connection that has room, so that others become idle and can
// close.
func (h *host) free(question bool) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *conn
	for _, c := range h.conns {
		if !c.full && c.used < maxSessions && (question || !c.extra) && (best == nil || c.used > best.used) {
			best = c
		}
	}
	if best != nil {
		best.used++
	}
	return best
}

// release frees a session's room.
func (h *host) release(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.used--
	c.full = false
	if c.used == 0 {
		c.idle = time.Now()
	}
}

func (h *host) drop(c *conn) {
	c.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = slices.DeleteFunc(h.conns, func(o *conn) bool { return o == c })
}

// spare drops a connection that was idle for some time.
func (h *host) spare(c *conn) {
	h.mu.Lock()
	spare := c.used == 0 && time.Since(c.idle) >= h.all.cfg.idle
	if spare {
		c.full = true // so no call takes it in between
	}
	h.mu.Unlock()
	if spare {
		h.drop(c)
	}
}

func (h *host) close() {
	h.mu.Lock()
	conns := h.conns
	h.conns, h.closed = nil, true
	h.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// keep checks the server now and then. It closes the connection when the server does
// not answer, or the connection is not needed.
func (h *host) keep(c *conn) {
	tick := time.NewTicker(h.all.cfg.keepalive)
	defer tick.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		h.spare(c)
		// Closing the connection ends the wait for a missing answer, and a blocked
		// write.
		silent := time.AfterFunc(h.all.cfg.keepalive, func() {
			h.all.log.Warn("an SSH host does not answer", "node", h.node())
			c.close()
		})
		err := c.alive()
		silent.Stop()
		if err != nil {
			<-c.dead
			return
		}
	}
}

// open opens a session, for a command or a question. The caller calls owned.Done when it
// owns the session's goroutines.
func (h *host) open(ctx context.Context, question bool) (*conn, ssh.Channel, <-chan *ssh.Request, error) {
	for {
		c, err := h.acquire(ctx, question)
		if err != nil {
			return nil, nil, nil, err
		}
		o, err := h.openOn(ctx, c)
		switch {
		case err != nil:
			return nil, nil, nil, h.unavailable(err)
		case o.err == nil:
			return c, o.ch, o.requests, nil
		}
		h.all.owned.Done()
		switch none, broken := h.notOpened(c, o.err); {
		case ctx.Err() != nil, errors.Is(o.err, errSilent), none && broken:
			return nil, nil, nil, h.unavailable(o.err)
		case none:
			return nil, nil, nil, corral.Errorf(corral.ErrUnavailable, "see MaxSessions in its sshd_config", "%s opens no session: %w", h.node(), o.err)
		}
	}
}

// opened is a server's answer to the request for a session.
type opened struct {
	ch       ssh.Channel
	requests <-chan *ssh.Request
	err      error
}

var errSilent = errors.New("it does not say whether it opens a session")

// openOn asks for a session on a connection, with room for it. The error is about ctx,
// or this program: then the room is free again when the server has answered.
func (h *host) openOn(ctx context.Context, c *conn) (opened, error) {
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.all.owned.Add(2) // the goroutine, and the caller
	}
	h.mu.Unlock()
	if closed {
		h.release(c)
		return opened{}, errClosed
	}
	answer := make(chan opened)
	go func() {
		defer h.all.owned.Done()
		// A server may answer keep and nothing else.
		silent := time.AfterFunc(h.all.cfg.keepalive, func() {
			h.all.log.Warn("an SSH host does not say whether it opens a session", "node", h.node())
			c.close()
		})
		var o opened
		o.ch, o.requests, o.err = c.client.OpenChannel("session", nil)
		if !silent.Stop() && o.err != nil {
			o.err = errSilent
		}
		if o.err == nil {
			h.mu.Lock()
			c.had = true
			h.mu.Unlock()
		}
		select {
		case answer <- o:
		case <-ctx.Done(): // nobody waits for it
			if o.err == nil {
				h.discard(c, o.ch, o.requests)()
			} else {
				h.notOpened(c, o.err)
			}
		}
	}()
	select {
	case o := <-answer:
		return o, nil
	case <-ctx.Done():
		h.all.owned.Done()
		return opened{}, ctx.Err()
	}
}

// discard ignores the server's messages about a session until that is closed, which end
// asks for. A server that does not close it in time loses the connection.
func (h *host) discard(c *conn, ch ssh.Channel, requests <-chan *ssh.Request) (end func()) {
	closed := make(chan struct{})
	h.all.owned.Go(func() {
		defer close(closed)
		ssh.DiscardRequests(requests)
		h.release(c)
	})
	return sync.OnceFunc(func() {
		time.AfterFunc(closeTime, func() {
			select {
			case <-closed:
			default: // a send waits for the server
				c.close()
			}
		})
		_ = ch.Close() // it may be closed
	})
}

// notOpened frees the room of a session that was not opened. none: the connection never
// had one, so another try is of no use. broken: the connection has ended.
func (h *host) notOpened(c *conn, err error) (none, broken bool) {
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
		h.release(c)
		h.drop(c) // it is broken; the next try uses another one
		h.mu.Lock()
		defer h.mu.Unlock()
		return !c.had, true
	}
	h.mu.Lock()
	c.used--
	alone, had := c.used == 0, c.had
	c.full = !alone || had
	if alone {
		c.idle = time.Now()
	}
	h.mu.Unlock()
	if alone && had { // the one before has ended here, and not yet at the server
		h.drop(c)
	}
	return alone && !had, false
}

// dial connects to a destination and logs in, through jump hosts if ssh_config says so.
// Close the hops after the client.
func (all *Hosts) dial(ctx context.Context, d destination, depth int) (client *ssh.Client, hops []*ssh.Client, err error) {
	t, err := all.resolve(d)
	if err != nil {
		return nil, nil, err
	}
	check, algorithms, err := hostKeys(t)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			for _, hop := range slices.Backward(hops) {
				_ = hop.Close() // the error says what is wrong
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	for _, jump := range t.jumps {
		if depth++; depth > maxJumps {
			return nil, hops, corral.Errorf(corral.ErrUnavailable, "look for a circle of ProxyJump in ssh_config", "more than %d hosts lie on the way to %s", maxJumps, d.host)
		}
		var hop *ssh.Client
		var before []*ssh.Client
		if len(hops) == 0 {
			hop, before, err = all.dial(ctx, jump, depth)
		} else {
			hop, err = all.dialOver(ctx, jump, hops[len(hops)-1])
		}
		if err != nil {
			return nil, hops, corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot connect to %s, over which %s is reached: %w", jump.host, d.host, err)
		}
		hops = append(append(hops, before...), hop)
		dial = hop.DialContext
	}
	nc, err := dial(ctx, "tcp", t.address())
	if err != nil {
		return nil, hops, err
	}
	client, err = all.login(ctx, nc, t, check, algorithms)
	return client, hops, err
}

// dialOver connects to a further hop. It ignores jump hosts that ssh_config gives that
// hop.
func (all *Hosts) dialOver(ctx context.Context, d destination, over *ssh.Client) (*ssh.Client, error) {
	t, err := all.resolve(d)
	if err != nil {
		return nil, err
	}
	check, algorithms, err := hostKeys(t)
	if err != nil {
		return nil, err
	}
	nc, err := over.DialContext(ctx, "tcp", t.address())
	if err != nil {
		return nil, err
	}
	return all.login(ctx, nc, t, check, algorithms)
}

// login makes an SSH connection over nc, and owns nc from here on.
func (all *Hosts) login(ctx context.Context, nc net.Conn, t target, check ssh.HostKeyCallback, algorithms []string) (*ssh.Client, error) {
	// No deadline: connections through another host have none.
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	keys := all.credentials(ctx, t)
	defer keys.close()
	c, chans, requests, err := ssh.NewClientConn(nc, t.known, &ssh.ClientConfig{
		User: t.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(keys.signers...)},
		HostKeyCallback: check, HostKeyAlgorithms: algorithms, ClientVersion: clientVersion,
	})
	if err == nil && !stop() {
		_ = c.Close()
		err = ctx.Err()
	}
	if err == nil {
		return ssh.NewClient(c, chans, requests), nil
	}
	stop()
	nc.Close()
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), err)
	case strings.Contains(err.Error(), "unable to authenticate"): // the package has no type for this error
		text := "none of the keys that there are is accepted for user " + t.user
		if len(keys.signers) == 0 {
			text = "there is no key to log in with as user " + t.user
		}
		if len(keys.notes) > 0 {
			text += " (" + strings.Join(keys.notes, "; ") + ")"
		}
		return nil, corral.Errorf(corral.ErrUnavailable, keys.hint, "%s: %w", text, err)
	}
	return nil, err
}
