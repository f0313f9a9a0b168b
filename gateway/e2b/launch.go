package e2b

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
)

// readyLimit is how long what a template starts may take to be ready.
const readyLimit = time.Minute

// launch starts what a sandbox's template starts, and returns when it is ready.
func (s *Server) launch(ctx context.Context, b Box) error {
	c := call{Context: context.WithoutCancel(ctx), box: b} // it goes on without its maker
	if b.Preset.Start != "" {
		req := script(b.Preset.Start)
		req.Stdin = &b.Preset.Code
		p, err := s.begin(c, req)
		if err == nil && b.Preset.Code {
			err = p.feed(ctx, interpreter)
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
	for {
		exit, err := s.shell(c, b.Preset.Ready, nil)
		switch {
		case ctx.Err() != nil:
			return corral.Errorf(corral.ErrUnavailable, "see what the start command needs", "what the template %s starts was not ready after %v", b.Template, readyLimit)
		case err != nil:
			return err
		case exit.Code == 0 && exit.Signal == 0:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyPause):
		}
	}
}

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
	if exit, err = p.session.Wait(c); err != nil {
		return exit, err
	}
	return exit, p.session.Remove(c)
}
