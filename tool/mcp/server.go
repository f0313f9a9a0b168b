package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral/tool"
)

// Tools are the tools of an agent: a *tool.Tools, or another implementation.
type Tools interface {
	Call(ctx context.Context, name string, arguments json.RawMessage) (tool.Result, error)
	Definitions() []tool.Definition
}

// Config of a Server. Tools is required.
type Config struct {
	Tools Tools

	Name    string // of the server, for clients; empty: corral
	Version string // empty: unknown

	// Context adds values from the headers of a call over HTTP to its context. Nil:
	// headers are ignored.
	Context func(context.Context, http.Header) context.Context

	// Approves says whether the user of a client may answer for the approvals of its own
	// calls, and why not for good; nil: also for good. If it is nil itself, every user may.
	Approves func(context.Context) (may bool, always error)

	// Instructions are for the model, after those about the tools.
	Instructions string

	// ProgressEvery is the interval of progress notifications; 0: a second.
	ProgressEvery time.Duration

	Log *slog.Logger // nil: nothing is logged
}

const (
	defaultProgressEvery = time.Second
	maxLine              = 2 * tool.MaxArguments // bytes of a message on a stream
)

const instructions = `Commands run through the tool exec. What takes long goes on in the background: follow it with the tool process, by the sessionId of the result, and prefer its action wait over polling. Sessions outlive this connection: after a reconnect, process list shows what runs.`

// A Server serves the tools of one agent to any number of clients.
type Server struct {
	cfg      Config
	sdk      *sdk.Server
	sessions sessions
}

// New returns a server.
func New(cfg Config) *Server {
	cfg.Name = cmp.Or(cfg.Name, "corral")
	cfg.Version = cmp.Or(cfg.Version, "unknown")
	if cfg.ProgressEvery <= 0 {
		cfg.ProgressEvery = defaultProgressEvery
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, sdk: sdk.NewServer(
		&sdk.Implementation{Name: cfg.Name, Title: "Corral", Version: cfg.Version},
		&sdk.ServerOptions{
			Instructions: strings.TrimSpace(instructions + "\n\n" + cfg.Instructions),
			Logger:       cfg.Log,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // the list never changes
		},
	)}
	yes := true
	for _, d := range cfg.Tools.Definitions() {
		s.sdk.AddTool(&sdk.Tool{
			Name: d.Name, Title: d.Title, Description: d.Description, InputSchema: d.Input, OutputSchema: d.Output,
			Annotations: &sdk.ToolAnnotations{Title: d.Title, DestructiveHint: &yes, OpenWorldHint: &yes},
		}, s.call)
	}
	return s
}

// call handles a call of any tool.
func (s *Server) call(ctx context.Context, req *sdk.CallToolRequest) (_ *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil { // which must not end the program
			s.cfg.Log.Error("panic in a call over MCP", "tool", req.Params.Name, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the call could not be served; the log says why")
		}
	}()
	defer s.sessions.begin(req.Session.ID())()
	if token := req.Params.GetProgressToken(); token != nil {
		ctx = tool.WithProgress(ctx, s.cfg.ProgressEvery, func(p tool.Progress) { s.notify(ctx, req.Session, token, p) })
	}
	if s.cfg.Context != nil && req.Extra != nil && req.Extra.Header != nil {
		ctx = s.cfg.Context(ctx, req.Extra.Header)
	}
	ask := s.elicitationOf(ctx, req)
	if ask != nil {
		ctx = tool.WithApprover(ctx, ask.approve)
	}
	r, err := s.cfg.Tools.Call(ctx, req.Params.Name, req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	if asks := ask.result(); asks != nil {
		return asks, nil
	}
	structured, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the result of %s: %w", req.Params.Name, err)
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: r.Text()}},
		StructuredContent: json.RawMessage(structured),
		IsError:           r.Failed(),
	}, nil
}

// notify sends progress to a client: the seconds so far, and the end of the output.
func (s *Server) notify(ctx context.Context, client *sdk.ServerSession, token any, p tool.Progress) {
	message := strings.TrimSpace(p.Tail)
	message = cmp.Or(message, fmt.Sprintf("session %s: no output yet", p.SessionID))
	err := client.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		ProgressToken: token, Progress: p.Elapsed.Seconds(), Message: message,
	})
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Debug("cannot notify a client of progress", "session", p.SessionID, "error", err)
	}
}

// Serve serves one client on a pair of streams, until in ends (then the error
// is nil) or ctx does. Commands in the foreground of a call are killed then. A line
// that is no message is answered with an error. If in and out are closers, they are
// closed; otherwise a Read of in that blocks outlives Serve.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &lockedWriter{WriteCloser: writeCloser(out)}
	r := newLines(readCloser(in), w) // which bounds lines
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: r, Writer: w, MaxLineLength: -1})
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil
	}
	return fmt.Errorf("cannot go on serving MCP: %w", err)
}

// Clients is how many there are now.
func (s *Server) Clients() int {
	n := 0
	for range s.sdk.Sessions() {
		n++
	}
	return n
}

// Close ends the clients' sessions of the protocol over HTTP, and kills commands in the
// foreground of a call.
func (s *Server) Close() error {
	var errs []error
	for session := range s.sdk.Sessions() {
		errs = append(errs, session.Close())
	}
	return errors.Join(errs...)
}

func readCloser(r io.Reader) io.ReadCloser {
	if rc, ok := r.(io.ReadCloser); ok {
		return rc
	}
	return io.NopCloser(r)
}

func writeCloser(w io.Writer) io.WriteCloser {
	if wc, ok := w.(io.WriteCloser); ok {
		return wc
	}
	return nopWriteCloser{w}
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }
