package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/sandbox"
)

// completeLimit bounds the questions to an engine while the user waits for the
// completion of a word.
const completeLimit = 2 * time.Second

// NoFiles: where words are completed, names of files are not.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// complete asks the engine for words. If it does not answer there are none.
func (a *App) complete(cmd *cobra.Command, ask func(context.Context, daemon.Engine) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if err := a.ReadEnvironment(cmd.Flags()); err != nil {
		return nil, NoFiles
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
	defer cancel()
	var words []string
	err := a.WithEngine(ctx, func(ctx context.Context, eng daemon.Engine) (err error) {
		words, err = ask(ctx, eng)
		return err
	})
	if err != nil {
		return nil, NoFiles
	}
	return words, NoFiles
}

// CompleteImages completes --image: Corral's own images, and what a user may
// add to that.
func (a *App) CompleteImages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return images.Own(), NoFiles
}

func (a *App) CompleteOwnImages(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		list, err := images.Store{Engine: eng.Images()}.List(ctx)
		var words []string
		for _, i := range list {
			words = append(words, i.Tags...)
		}
		return words, err
	})
}

func (a *App) completeRuntimes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		facts, err := eng.Facts(ctx)
		return facts.Runtimes, err
	})
}

func (a *App) CompleteSandboxes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		dir, err := a.StateDir()
		if err != nil {
			return nil, err
		}
		rows, err := eng.Sandboxes(ctx, dir)
		return NamesOf(rows), err
	})
}

// CompleteKnownSandboxes completes the names of sandboxes in the state directory that
// are not arguments yet. It needs no engine.
func (a *App) CompleteKnownSandboxes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.ReadEnvironment(cmd.Flags()); err != nil {
		return nil, NoFiles
	}
	dir, err := a.StateDir()
	if err != nil {
		return nil, NoFiles
	}
	list, err := sandbox.Sandboxes(dir)
	if err != nil && len(list) == 0 {
		return nil, NoFiles
	}
	var words []string
	for _, s := range list {
		if !slices.Contains(args, s.Name) {
			words = append(words, s.Name)
		}
	}
	return words, NoFiles
}

// completeUser completes --user with the account's own, if that is allowed.
func (a *App) completeUser(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	if os.Geteuid() <= 0 {
		return nil, NoFiles
	}
	return []string{fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())}, NoFiles
}

// CompleteEnv completes the names of variables that can be passed on.
func (a *App) CompleteEnv(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, kv := range a.Environ {
		if name, _, ok := strings.Cut(kv, "="); ok {
			words = append(words, name)
		}
	}
	return words, NoFiles | cobra.ShellCompDirectiveNoSpace
}

// NamesOf has each sandbox once: there is a row for each of its containers.
func NamesOf(rows []daemon.SandboxRow) (names []string) {
	for _, r := range rows {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
