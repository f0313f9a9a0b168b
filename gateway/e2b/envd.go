package e2b

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// EnvdPort is the port by which a client means the sandbox itself, and nothing that
// listens in it.
const EnvdPort = "49983"

// maxMessage bounds a message of a client: input for a process, for one.
const maxMessage = 8 << 20

// Inside is what a sandbox answers at EnvdPort.
func (s *Server) Inside() []Route {
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxMessage)}
	routes := []Route{
		{Pattern: "GET /health", Right: access.Public, Handle: s.health},
		{Pattern: "GET /files", Right: access.Run, Handle: s.download},
		{Pattern: "POST /files", Right: access.Run, Handle: s.upload},
		{Pattern: "GET /metrics", Right: access.Read, Handle: missing},
	}
	rpc := func(procedure string, stays bool, h http.Handler) {
		routes = append(routes, Route{Pattern: "POST " + procedure, Right: access.Run, Stays: stays, Handle: func(w http.ResponseWriter, r *http.Request) error {
			if stays {
				held := &heldWriter{ResponseWriter: w}
				w, r = held, r.WithContext(context.WithValue(r.Context(), heldKey{}, held))
			}
			h.ServeHTTP(w, r)
			return nil
		}})
	}
	const process, filesystem = "/process.Process/", "/filesystem.Filesystem/"
	unary(rpc, process+"List", s.listProcesses, options)
	unary(rpc, process+"Update", onProc(s, update), options)
	unary(rpc, process+"SendInput", onProc(s, sendInput), options)
	unary(rpc, process+"SendSignal", onProc(s, sendSignal), options)
	unary(rpc, process+"CloseStdin", onProc(s, closeStdin), options)
	stream(rpc, process+"Start", s.start, options)
	stream(rpc, process+"Connect", s.attach, options)
	rpc(process+"StreamInput", true, connect.NewClientStreamHandler(process+"StreamInput", s.streamInput, options...))
	unary(rpc, filesystem+"Stat", onFiles(s, stat), options)
	unary(rpc, filesystem+"MakeDir", onFiles(s, makeDir), options)
	unary(rpc, filesystem+"Move", onFiles(s, s.move), options)
	unary(rpc, filesystem+"ListDir", onFiles(s, listDir), options)
	unary(rpc, filesystem+"Remove", onFiles(s, remove), options)
	unary(rpc, filesystem+"CreateWatcher", onFiles(s, s.createWatcher), options)
	unary(rpc, filesystem+"GetWatcherEvents", onFiles(s, s.watcherEvents), options)
	unary(rpc, filesystem+"RemoveWatcher", s.removeWatcher, options)
	stream(rpc, filesystem+"WatchDir", s.watchDir, options)
	return append(routes, Route{Pattern: "/", Right: access.Run, Handle: func(_ http.ResponseWriter, r *http.Request) error {
		return corral.Errorf(corral.ErrNotFound, "see docs/how-to/e2b.md for what there is", "there is no %s in a sandbox", r.URL.Path)
	}})
}

// A heldWriter sends what is written last together with the end of the response. Each piece
// for itself wakes the client, which is ready only after the end.
type heldWriter struct {
	http.ResponseWriter
	held bool
}

type heldKey struct{}

// holdLast has what is written to a stream from now on wait for its end.
func holdLast(ctx context.Context) {
	if w, ok := ctx.Value(heldKey{}).(*heldWriter); ok {
		w.held = true
	}
}

// Flush implements http.Flusher.
func (w *heldWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok && !w.held {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *heldWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// unary adds a procedure with one request and one answer.
func unary[Q, A any](add func(string, bool, http.Handler), procedure string, do func(call, *Q) (*A, error), options []connect.HandlerOption) {
	add(procedure, false, connect.NewUnaryHandlerSimple(procedure, func(ctx context.Context, q *Q) (*A, error) {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		c, err := callOf(ctx, info.RequestHeader())
		if err != nil {
			return nil, rpcError(err)
		}
		a, err := do(c, q)
		return a, rpcError(err)
	}, options...))
}

// stream adds a procedure with one request and many answers.
func stream[Q, A any](add func(string, bool, http.Handler), procedure string, do func(call, *connect.Request[Q], *connect.ServerStream[A]) error, options []connect.HandlerOption) {
	add(procedure, true, connect.NewServerStreamHandler(procedure, func(ctx context.Context, q *connect.Request[Q], to *connect.ServerStream[A]) error {
		c, err := callOf(ctx, q.Header())
		if err == nil {
			err = do(c, q, to)
		}
		return rpcError(err)
	}, options...))
}

// Sandbox is the sandbox of a request that has its ID, and by what right it is used: with
// public, by none. The request that it returns is that of the sandbox.
func (s *Server) Sandbox(r *http.Request, id string, public bool) (*http.Request, *access.Grant, error) {
	b, ok := s.cfg.Store.Get(id)
	if !ok || s.over(b) {
		return nil, nil, errGone(id)
	}
	g, err := s.grantOf(b)
	switch err = cmp.Or(authorize(r, b, time.Now()), err); {
	case err == nil: // nobody else wakes it up
		b, err = s.awake(r.Context(), id)
	case public && b.Paused:
		err = errGone(id)
	case public:
		g, err = access.Nothing, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return s.enter(r, b), g, nil
}

// grantOf is by what right a sandbox is used: that of the key which connected to it last.
func (s *Server) grantOf(b Box) (*access.Grant, error) {
	g := s.cfg.Grant(b.Key)
	if !g.Sees(b.Agent) {
		return nil, corral.Errorf(api.ErrUnauthorized, "connect to the sandbox by a key that is valid", "the key by which the sandbox %s was used has ended", b.ID)
	}
	return g, nil
}

// authorize checks the token of a sandbox, or what was signed by it.
func authorize(r *http.Request, b Box, now time.Time) error {
	if token := r.Header.Get("X-Access-Token"); token != "" {
		if access.Same(token, b.Token) {
			return nil
		}
		return corral.Errorf(api.ErrUnauthorized, "connect to the sandbox, which says what its token is", "the access token is not that of the sandbox")
	}
	if r.URL.Path == "/files" && r.URL.Query().Has("signature") {
		if !signed(r, b) {
			return corral.Errorf(api.ErrUnauthorized, "", "invalid signature")
		}
		return unexpired(r, now)
	}
	return corral.Errorf(api.ErrUnauthorized, "send it in X-Access-Token", "missing access token")
}

// signed reports whether a request for a file was signed by a sandbox's token, whenever
// that was for.
func signed(r *http.Request, b Box) bool {
	q := r.URL.Query()
	operation := "read"
	if r.Method == http.MethodPost {
		operation = "write"
	}
	text := q.Get("path") + ":" + operation + ":" + q.Get("username") + ":" + b.Token
	if exp := q.Get("signature_expiration"); exp != "" {
		text += ":" + exp
	}
	sum := sha256.Sum256([]byte(text))
	want := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
	return subtle.ConstantTimeCompare([]byte(q.Get("signature")), []byte(want)) == 1
}

func unexpired(r *http.Request, now time.Time) error {
	text := r.URL.Query().Get("signature_expiration")
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "signature_expiration is no time: %w", err)
	}
	if now.Unix() >= n {
		return &Error{Status: http.StatusUnauthorized, Message: "signature is already expired"}
	}
	return nil
}

// maxLink bounds the query of a link whose sandbox has to be found: each is tried.
const maxLink = 8 << 10

// Signer is the sandbox whose token a request for a file was signed by. Clients that are
// told one address for all sandboxes (E2B_SANDBOX_URL) make links that do not say.
func (s *Server) Signer(r *http.Request) (id string, ok bool) {
	if r.URL.Path != "/files" || len(r.URL.RawQuery) > maxLink || !strings.HasPrefix(r.URL.Query().Get("signature"), "v1_") {
		return "", false
	}
	for _, b := range s.cfg.Store.List() {
		if signed(r, b) {
			return b.ID, true
		}
	}
	return "", false
}

// basicUser is the user in the header Authorization; empty: none.
func basicUser(h http.Header) string {
	name, _, _ := (&http.Request{Header: h}).BasicAuth()
	return name
}
