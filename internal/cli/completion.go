package cli

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

const noFiles = cobra.ShellCompDirectiveNoFileComp

// complete asks the engine for words. If it does not answer there are none.
func (a *app) complete(cmd *cobra.Command, ask func(context.Context, daemon.Engine) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if err := a.readEnvironment(cmd.Flags()); err != nil {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
	defer cancel()
	var words []string
	err := a.withEngine(ctx, func(ctx context.Context, eng daemon.Engine) (err error) {
		words, err = ask(ctx, eng)
		return err
	})
	if err != nil {
		return nil, noFiles
	}
	return words, noFiles
}

// completeImages completes --image: Corral's own images, and what a user may
// add to that.
func (a *app) completeImages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return images.Own(), noFiles
}

func (a *app) completeOwnImages(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		list, err := images.Store{Engine: eng.Images()}.List(ctx)
		var words []string
		for _, i := range list {
			words = append(words, i.Tags...)
		}
		return words, err
	})
}

func (a *app) completeRuntimes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		facts, err := eng.Facts(ctx)
		return facts.Runtimes, err
	})
}

func (a *app) completeSandboxes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, eng daemon.Engine) ([]string, error) {
		dir, err := a.stateDir()
		if err != nil {
			return nil, err
		}
		rows, err := eng.Sandboxes(ctx, dir)
		return namesOf(rows), err
	})
}

// completeKnownSandboxes completes the names of sandboxes in the state directory that
// are not arguments yet. It needs no engine.
func (a *app) completeKnownSandboxes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.readEnvironment(cmd.Flags()); err != nil {
		return nil, noFiles
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, noFiles
	}
	list, err := sandbox.Sandboxes(dir)
	if err != nil && len(list) == 0 {
		return nil, noFiles
	}
	var words []string
	for _, s := range list {
		if !slices.Contains(args, s.Name) {
			words = append(words, s.Name)
		}
	}
	return words, noFiles
}

// completeUser completes --user with the account's own, if that is allowed.
func (a *app) completeUser(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	if os.Geteuid() <= 0 {
		return nil, noFiles
	}
	return []string{fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())}, noFiles
}

// completeEnv completes the names of variables that can be passed on.
func (a *app) completeEnv(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, kv := range a.environ {
		if name, _, ok := strings.Cut(kv, "="); ok {
			words = append(words, name)
		}
	}
	return words, noFiles | cobra.ShellCompDirectiveNoSpace
}
