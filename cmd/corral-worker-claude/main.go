// Command corral-worker-claude does the work of Claude's managed agents with a gateway. It
// is started by corral worker claude, and not by people.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/tool/claude"
	"github.com/corral-exec/corral/tool/claude/job"
)

func main() {
	// Terminals and systemd signal both programs; corral says when to end.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "corral:", err)
		if hint := corral.Hint(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
		os.Exit(1)
	}
}

func run() error {
	j, ctx, err := job.Read(context.Background(), os.Stdin)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(j.Level)); err != nil {
		return err
	}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	if j.LogJSON {
		handler = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	}
	log := slog.New(handler)
	slog.SetDefault(log) // where the SDK says what it does about skills
	err = claude.Run(ctx, claude.Options{Job: j, Log: log, Open: func(session string) (claude.Executor, error) {
		at := j.Gateway
		at.Session = "claude-" + session
		return client.New(at)
	}})
	if errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
