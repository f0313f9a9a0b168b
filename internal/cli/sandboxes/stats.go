package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/words"
)

// Variables for tests.
var (
	StatsGap   = time.Second     // between the two measurements of one answer
	StatsEvery = 2 * time.Second // between answers
)

// SandboxUse is what a sandbox uses, as corral sandbox stats prints it.
type SandboxUse struct {
	api.SandboxStats
	// CPUs is how many processors it used since the last look; nil: there was
	// none.
	CPUs *float64 `json:"cpus"`
}

func (a commands) stats() *cobra.Command {
	var watch, once, local bool
	cmd := &cobra.Command{
		Use: "stats [flags] [NAME]...", Short: "Show what sandboxes use",
		Long: `Show what sandboxes use, and may use: processors, memory, processes; without a
name, those that run. On a terminal it goes on until Ctrl-C; elsewhere, and with
--no-stream, it is shown once, after a second; the use of processors is the
average of that second.

With --json it is a list; with --watch one on each line.`,
		ValidArgsFunction: a.CompleteKnownSandboxes,
		RunE: func(cmd *cobra.Command, names []string) error {
			if watch && once {
				return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--watch goes on, and --no-stream does not")
			}
			_, screen := terminal.Shows(a.Stdout)
			v := statsView{app: a.App, names: names, json: a.JSON(), screen: screen && !a.JSON(), last: map[string]api.SandboxStats{}}
			v.goesOn = watch || screen && !once && !a.JSON()
			err := a.KeptSandboxes(cmd.Context(), local, func(ctx context.Context, k gateway.Sandboxes, _ bool) error { return v.show(ctx, k) })
			if v.goesOn && interruptedByUser(err) {
				return nil
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&watch, "watch", false, "go on, also where there is no terminal")
	f.BoolVar(&once, "no-stream", false, "show it once")
	app.AddLocalFlag(cmd, &local)
	return app.WithJSON(cmd)
}

// interruptedByUser reports whether a signal is why something ended.
func interruptedByUser(err error) bool {
	var cause foreground.Interruption
	return errors.As(err, &cause)
}

// A statsView shows what sandboxes use, again and again.
type statsView struct {
	app          *app.App
	names        []string
	json, goesOn bool
	screen       bool // each answer replaces the last one
	last         map[string]api.SandboxStats
}

func (v *statsView) show(ctx context.Context, k gateway.Sandboxes) error {
	if _, err := v.look(ctx, k); err != nil {
		return err
	}
	for gap := StatsGap; ; gap = StatsEvery {
		select {
		case <-time.After(gap):
		case <-ctx.Done():
			return ctx.Err()
		}
		list, err := v.look(ctx, k)
		if err != nil {
			return err
		}
		if err := v.print(list); err != nil || !v.goesOn {
			return err
		}
	}
}

// look asks what each uses now.
func (v *statsView) look(ctx context.Context, k gateway.Sandboxes) ([]SandboxUse, error) {
	names := v.names
	if len(names) == 0 {
		all, err := k.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if s.State == api.SandboxRunning {
				names = append(names, s.Name)
			}
		}
	}
	list := []SandboxUse{}
	now := map[string]api.SandboxStats{}
	for _, name := range names {
		s, err := k.Stats(ctx, name)
		if errors.Is(err, corral.ErrNotFound) && len(v.names) == 0 { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		now[name] = s
		list = append(list, SandboxUse{s, processors(v.last[name], s)})
	}
	v.last = now
	return list, nil
}

// processors is how many were used between two looks at one container.
func processors(before, now api.SandboxStats) *float64 {
	passed := now.At.Sub(before.At)
	if !before.Running || !now.Running || before.Container != now.Container || passed <= 0 || now.CPU < before.CPU {
		return nil
	}
	n := float64(now.CPU-before.CPU) / float64(passed)
	return &n
}

func (v *statsView) print(list []SandboxUse) error {
	if v.json {
		return v.app.PrintJSON(list, nil)
	}
	t := cmdline.Table{Headings: []string{"NAME", "CPUS", "MEMORY", "PROCESSES", "OUT OF MEMORY", "CONTAINER"}}
	for _, u := range list {
		row := []cmdline.Cell{{Text: u.Name}, {Text: "-"}, {Text: "-"}, {Text: "-"}, {Text: "-"}, {Text: u.Container}}
		if u.Running {
			row[1].Text = ofLimit(processorsText(u.CPUs), u.CPULimit > 0, strconv.FormatFloat(u.CPULimit, 'f', -1, 64))
			row[2].Text = ofLimit(words.Bytes(u.Memory), u.MemoryLimit > 0, words.Bytes(u.MemoryLimit))
			row[3].Text = ofLimit(strconv.FormatInt(u.Pids, 10), u.PidsLimit > 0, strconv.FormatInt(u.PidsLimit, 10))
			if u.OOMKills >= 0 {
				row[4].Text = strconv.FormatInt(u.OOMKills, 10)
			}
			if u.OOMKills > 0 {
				row[4].Style = cmdline.Red
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if v.screen && v.goesOn {
		if _, err := fmt.Fprint(v.app.Stdout, "\x1b[H\x1b[2J"); err != nil {
			return err
		}
	}
	if len(list) == 0 && !v.goesOn {
		_, err := fmt.Fprintln(v.app.Stderr, "No sandbox runs.")
		return err
	}
	return v.app.WriteTable(t)
}

func processorsText(n *float64) string {
	if n == nil {
		return "?"
	}
	return strconv.FormatFloat(*n, 'f', 2, 64)
}

func ofLimit(used string, limited bool, limit string) string {
	if !limited {
		return used
	}
	return used + " / " + limit
}
