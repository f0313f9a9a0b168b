package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/listen"
)

// Serve serves on every listener until ctx ends, then drains (see Drain), and
// gives requests under way Config.DrainLimit to finish. It closes the
// listeners. The error is nil if it was ctx that ended it, and everything
// could be finished.
//
// Under systemd it says when it is ready and when it stops (sd_notify).
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	if len(listeners) == 0 {
		return corral.Errorf(corral.ErrInvalid, "give at least one listener", "a gateway that listens nowhere was asked for")
	}
	for _, l := range listeners {
		if l.Addr().Network() != "unix" && s.cfg.Token == "" {
			listen.CloseAll(listeners)
			return corral.Errorf(corral.ErrInvalid, "set Config.Token", "a gateway without a token cannot listen on %s", l.Addr())
		}
		if err := s.mayFace(l.Addr()); err != nil {
			listen.CloseAll(listeners)
			return err
		}
		if page := s.pageURL(l); page != "" {
			s.pages = append(s.pages, page)
		}
	}
	unused := &unusedConns{since: map[net.Conn]time.Time{}}
	server := &http.Server{
		ConnState:         unused.note,
		Handler:           s,
		ReadHeaderTimeout: idleLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    api.MaxHeader,
		ConnContext:       s.ConnContext,
		BaseContext:       baseContext,
		ErrorLog:          log.New(serverLog{s.log}, "", 0),
	}
	g, running := errgroup.WithContext(ctx)
	for _, l := range listeners {
		s.log.Info("the gateway listens", "address", l.Addr().String(), "network", l.Addr().Network(), "tls", s.cfg.TLS != nil && l.Addr().Network() != "unix")
		if s.cfg.TLS != nil && l.Addr().Network() != "unix" {
			secure := tls.NewListener(l, s.offering(s.cfg.TLS))
			if _, ok := l.(e2bListener); ok {
				secure = ForE2B(secure)
			}
			l = secure
		}
		g.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	s.notify(daemon.SdNotifyReady)
	g.Go(func() error {
		s.measureUsage(running)
		return nil
	})
	g.Go(func() error {
		<-running.Done()
		s.notify(daemon.SdNotifyStopping)
		return s.shutdown(server, unused)
	})
	return g.Wait()
}

// A serverLog gets what http.Server says. All but one thing is about single clients.
type serverLog struct{ to *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "Accept error") {
		l.to.Error("clients wait: their connections cannot be accepted", "error", text, "hint", "raise the gateway's limit of open files (ulimit -n, LimitNOFILE=)")
	} else {
		l.to.Debug(text)
	}
	return len(line), nil
}

// offering is the TLS of a listener. HTTP/2 is for the hosts of ports: connections of the
// API become tunnels and WebSockets.
func (s *Server) offering(c *tls.Config) *tls.Config {
	two := c.Clone()
	two.NextProtos = append([]string{"h2"}, c.NextProtos...)
	c = c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if _, _, _, ok := s.cfg.Domain.Match(hello.ServerName); ok {
			return two, nil
		}
		return nil, nil
	}
	return c
}

// mayFace says why the gateway may not listen on an address: beyond the loopback
// interface, who listens on the way sees all that is not encrypted, and anyone can ask.
func (s *Server) mayFace(a net.Addr) error {
	switch {
	case a.Network() == "unix" || isLoopback(a):
		return nil
	case s.cfg.TLS == nil:
		return corral.Errorf(corral.ErrDenied, "set gateway.tls.cert and key, or gateway.tls.self; or listen on 127.0.0.1 behind a proxy that encrypts, or use ssh -L",
			"%s is beyond the loopback interface, and the gateway has no TLS", a)
	case s.cfg.Keys == nil || len(s.cfg.Keys.List()) == 0:
		return corral.Errorf(corral.ErrDenied, "make one first: start the gateway without that address, and use corral keys create",
			"%s is beyond the loopback interface, and the gateway has no key, so that nobody could use it", a)
	}
	return nil
}

func (s *Server) shutdown(server *http.Server, unused *unusedConns) error {
	begin := time.Now()
	s.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainLimit)
	defer cancel()
	stop := unused.closing()
	closed := server.Shutdown(ctx) // the end of ctx, or what a listener said
	stop()
	err := ctx.Err()
	if err == nil {
		err = s.awaitStreams(ctx)
	}
	if err != nil {
		s.log.Warn("requests were cut off: they did not end in time", "limit", s.cfg.DrainLimit)
		return errors.Join(corral.Errorf(corral.ErrUnavailable, "", "the gateway stopped with requests under way: %w", err), server.Close())
	}
	s.log.Info("the gateway has stopped", "took", time.Since(begin))
	if closed != nil {
		return fmt.Errorf("the gateway has stopped, but cannot clean up: %w", closed)
	}
	return nil
}

// awaitStreams waits for what http.Server has lost sight of: WebSockets.
func (s *Server) awaitStreams(ctx context.Context) error {
	for range cap(s.followers) { // all tokens: then no request holds one
		select {
		case s.followers <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Server) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd could not be told", "state", state, "error", err)
	}
}
