package sessions

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
)

const attachLong = `Attach to a session: its output as it comes, from some lines before the end on,
and what is typed goes to it. It lasts until the session ends, also across
restarts of the gateway; the exit code is then the command's.

On a terminal keys are passed on as they are typed, and the size follows. A
program that draws a full screen draws it anew; afterwards this terminal is as it
was before.
Of its output nothing reaches beyond the screen, such as the clipboard or the
title; --raw passes on all.
The keys ctrl-p ctrl-q (--detach-keys) detach: the session goes on. From a session
without a terminal, Ctrl-C detaches and Ctrl-D ends its input.`

// attachFlags are those of one call.
type attachFlags struct {
	agent  string
	keys   foreground.Keys
	stdin  bool
	raw    bool
	window window
}

func (a commands) attachCommand() *cobra.Command {
	o := &attachFlags{}
	cmdline.Must(o.keys.Set(foreground.DefaultKeys))
	cmd := &cobra.Command{
		Use: "attach [flags] ID", Short: "Attach this terminal to a session",
		Long: attachLong,
		Example: `  corral attach server
  corral attach --detach-keys ctrl-a,d repl`,
		Args: oneSession, ValidArgsFunction: a.CompleteSessions(1, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.attach(cmd.Context(), o, args[0])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&o.keys, "detach-keys", "`KEYS`: what is typed to detach, with commas between, or none")
	app.FromEnvironment(f, "detach-keys")
	f.BoolVarP(&o.stdin, "stdin", "i", true, "pass on standard input; =false: only watch")
	f.BoolVar(&o.raw, "raw", false, rawUsage)
	o.window.addFlags(cmd, 10)
	a.AddAgentFlag(cmd, &o.agent)
	return cmd
}

func (a commands) attach(ctx context.Context, o *attachFlags, id string) error {
	c, err := a.Connect(o.agent)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := reach.Session(ctx, c, id)
	if err != nil {
		return err
	}
	st, err := p.Status(ctx)
	if err != nil {
		return err
	}
	off, err := o.window.begin(ctx, p.Log())
	if err != nil {
		return err
	}
	end, err := foreground.Attach(ctx, p, st, off, foreground.AttachOptions{
		Streams: a.Streams(), Keys: &o.keys, Stdin: o.stdin, Raw: o.raw, Tell: a.Tell, Words: app.InFlags,
	})
	if end == nil || err != nil {
		return err
	}
	return sessionEnd(*end)
}

const rawUsage = "pass output on byte for byte also to a terminal: what it says to the clipboard, the title and the like counts"
