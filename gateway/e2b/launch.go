package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
)

// readyLimit is how long what a template starts may take to be ready.
const readyLimit = time.Minute

// launch starts what a sandbox's template starts, and returns when it is ready.
func (s *Server) launch(ctx context.Context, b Box) error {
	c := call{Context: context.WithoutCancel(ctx), box: b, user: b.Preset.User} // it goes on without its maker
	var started *proc
	if b.Preset.Start != "" {
		req := script(b.Preset.Start)
		req.Stdin = &b.Preset.Code
		var err error
		if started, err = s.begin(c, req); err == nil && b.Preset.Code {
			err = started.feed(ctx, interpreter)
		}
		if err != nil {
			return err
		}
	}
	if b.Preset.Ready == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	c.Context = ctx
	var said []byte // by the last one that wrote
	for {
		failed := started.failure(ctx) // looked at first: it may become ready and then end
		var now []byte
		exit, err := s.shell(c, b.Preset.Ready, func(out corral.Chunk) {
			now = append(now, out.Data[:min(len(out.Data), maxWritten-len(now))]...)
			said = now
		})
		switch {
		case err == nil && exit.Code == 0:
			return nil
		case ctx.Err() != nil:
			how := fmt.Sprintf("was not ready after %v", readyLimit)
			if len(said) > 0 {
				how += fmt.Sprintf("; the command that asks whether it is wrote %q", said)
			}
			return started.notReady(b.Template, how)
		case err != nil:
			return err
		case failed != nil:
			return started.notReady(b.Template, fmt.Sprintf("ended before it was ready: %v", failed))
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyPause):
		}
	}
}

// failure is how a process has failed; nil: it runs, or has ended well, as one does that
// leaves a server in the background.
func (p *proc) failure(ctx context.Context) *corral.Exit {
	if p == nil {
		return nil
	}
	if _, ended := p.session.Ended(); !ended {
		return nil
	}
	exit, err := p.session.Wait(ctx)
	if err != nil || exit.Code == 0 {
		return nil
	}
	return &exit
}

// notReady is the error of a template that does not start, with the end of what the start
// command wrote.
func (p *proc) notReady(template, how string) error {
	if p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if out, err := p.session.Tail(ctx, maxWritten); err == nil && out != "" {
			how += ". It wrote:\n" + out
		}
	}
	return corral.Errorf(corral.ErrUnavailable, "see what the start command needs", "what the template %s starts %s", template, how)
}

const maxWritten = 2000 // bytes of output in an error

const readyPause = 200 * time.Millisecond

// script is a request for a process that is shell text.
func script(text string) *pb.StartRequest {
	return &pb.StartRequest{Process: &pb.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-l", "-c", text}}, Stdin: new(bool)}
}

// shell runs shell text as a command of a sandbox and forgets it at its end. each, unless it
// is nil, is given what it writes.
func (s *Server) shell(c call, text string, each func(corral.Chunk)) (exit corral.Exit, err error) {
	p, err := s.begin(c, script(text))
	if err != nil {
		return exit, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c), endLimit)
		defer cancel()
		err = errors.Join(err, p.session.Discard(ctx)) // it runs still if its time is over
	}()
	buf := make([]byte, piece)
	for off := int64(0); each != nil; {
		chunk, err := p.session.Log().Read(c, off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return exit, err
		}
		each(chunk)
		off = chunk.Next()
	}
	return p.session.Wait(c)
}
