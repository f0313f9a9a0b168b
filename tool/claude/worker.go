package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/lib/environments"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/anthropics/anthropic-sdk-go/tools/agenttoolset"
	"golang.org/x/sync/errgroup"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/tool/claude/job"
)

// An Executor runs the commands of one session.
type Executor interface {
	corral.Executor
	io.Closer
}

// Options of Run. All are required.
type Options struct {
	job.Job

	// Open returns what the commands of a session run on. Run closes it when the
	// session is given back.
	Open func(session string) (Executor, error)
	Log  *slog.Logger
}

// Run does work until ctx ends, which is no error. Sessions that are running then are
// given back to the queue's owner. It returns an error if the API refuses the
// environment or its key; while the API cannot be reached it tries again.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{
		Options: o,
		// No key, token or profile of this process's environment is used.
		client: anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(o.API)),
	}
	poller := environments.NewWorkPoller(ctx, w.client, environments.WorkPollerOptions{
		EnvironmentID: o.Environment, EnvironmentKey: o.Key, AutoStop: param.NewOpt(false), Logger: o.Log,
	})
	var running errgroup.Group
	slots := make(chan struct{}, o.Sessions)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done(): // Next says so
		}
		if !poller.Next() {
			break
		}
		work := *poller.Current()
		running.Go(func() error {
			defer func() { <-slots }()
			log := o.Log.With("session", work.Data.ID, "work", work.ID)
			if err := w.serve(ctx, work, log); err != nil && !errors.Is(err, ctx.Err()) {
				log.Error("a session was given back", "error", err)
			}
			return nil
		})
	}
	cancel() // sessions do not go on by a key that is refused
	err := errors.Join(poller.Err(), poller.Close(), running.Wait())
	if refused, ok := errors.AsType[*anthropic.Error](err); ok {
		hint := "check the environment's ID, and that the key is of that environment"
		return corral.Errorf(corral.ErrDenied, hint, "the API refuses to give work of the environment %s: %s", o.Environment, refusal(refused))
	}
	return err
}

// refusal is an answer of the API in one line.
func refusal(e *anthropic.Error) string {
	var body struct {
		Error struct{ Message string }
	}
	text := ""
	if json.Unmarshal([]byte(e.RawJSON()), &body) == nil {
		text = ": " + body.Error.Message
	}
	return fmt.Sprintf("%d %s%.300s", e.StatusCode, http.StatusText(e.StatusCode), text)
}

type worker struct {
	Options
	client anthropic.Client
}

// sessionID is what a session can be called: its ID becomes a part of paths.
var sessionID = lazy.Regexp(`^[A-Za-z0-9_-]{1,64}$`)

// serve does the work of one item of the queue, and gives it back.
func (w *worker) serve(ctx context.Context, work anthropic.BetaSelfHostedWork, log *slog.Logger) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if work.Data.Type != "session" || !sessionID().MatchString(work.Data.ID) {
		log.Info("an item of the queue is no session, and is given back", "type", work.Data.Type)
		return w.stop(ctx, work)
	}
	ex, err := w.Open(work.Data.ID)
	if err != nil {
		return errors.Join(err, w.stop(ctx, work))
	}
	defer func() { err = errors.Join(err, ex.Close()) }()
	dir, err := os.MkdirTemp("", "corral-claude-") // for skills, on their way to the sandbox
	if err != nil {
		return errors.Join(err, w.stop(ctx, work))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &session{id: work.Data.ID, ex: ex, log: log}
	defer func() { s.end(ctx) }()
	item := environments.NewEnvironmentWorker(w.client, environments.EnvironmentWorkerOptions{
		Workdir: dir, MemorySyncInterval: -1, Logger: log,
		RequestOptions: []option.RequestOption{option.WithMiddleware(refuseMemory(work.Data.ID, cancel))},
		ToolsFunc: func(env *agenttoolset.AgentToolContext) []anthropic.BetaTool {
			s.sendSkills(ctx, dir)
			return s.tools(env)
		},
	})
	err = item.HandleItem(ctx, environments.HandleItemOptions{
		WorkID: work.ID, EnvironmentID: work.EnvironmentID, SessionID: work.Data.ID, EnvironmentKey: w.Key, WorkSecret: work.Secret,
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// stop gives an item back that is not begun.
func (w *worker) stop(ctx context.Context, work anthropic.BetaSelfHostedWork) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	_, err := w.client.Beta.Environments.Work.Stop(ctx, work.ID, anthropic.BetaEnvironmentWorkStopParams{
		EnvironmentID:                 work.EnvironmentID,
		BetaSelfHostedWorkStopRequest: anthropic.BetaSelfHostedWorkStopRequestParam{Force: param.NewOpt(true)},
	}, option.WithAuthToken(w.Key))
	return err
}

// maxSession bounds the description of a session, in bytes.
const maxSession = 8 << 20

// errMemory is why a session with memory stores is given back. Without them it would run
// as if it remembered nothing.
var errMemory = corral.Errorf(errors.ErrUnsupported, "run the session in another environment, or detach its memory stores",
	"the session has memory stores, which this worker does not mount")

// refuseMemory looks at the session that the SDK asks for before it begins, and ends its
// work if it has memory stores.
func refuseMemory(id string, end context.CancelCauseFunc) option.Middleware {
	return func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if err != nil || req.Method != http.MethodGet || res.StatusCode != http.StatusOK || !strings.HasSuffix(req.URL.Path, "/v1/sessions/"+id) {
			return res, err
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, maxSession))
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return nil, err
		}
		var session struct{ Resources []struct{ Type string } }
		if err := json.Unmarshal(body, &session); err != nil {
			return nil, fmt.Errorf("cannot read the session: %w", err)
		}
		for _, r := range session.Resources {
			if r.Type == "memory_store" {
				end(errMemory)
				return nil, errMemory
			}
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		return res, nil
	}
}
