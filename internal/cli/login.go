package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/terminal"
)

const loginLong = `Have corral's commands go to a gateway elsewhere. The key is asked for on the
terminal, or read from standard input; it is kept in contexts.json beside the
configuration, which only you can read.

A gateway that shows a certificate of its own is known by its fingerprint: give
--fingerprint as the gateway's log has it at the start. Without it, the command
fails, and shows the fingerprint that the gateway has, to be compared there.`

// loggedIn is what corral login prints as JSON.
type loggedIn struct {
	Context string      `json:"context"`
	URL     string      `json:"url"`
	Key     client.Self `json:"key"`
}

func (a commands) loginCommand() *cobra.Command {
	var name, fingerprint string
	cmd := &cobra.Command{
		Use: "login [flags] URL", Short: "Have commands go to a gateway elsewhere", Long: loginLong,
		Example: `  corral login https://gw.example.com:7777
  corral login https://10.0.0.5:7777 --fingerprint 9f86d081… < key`,
		Args: cmdline.Exactly("URL of a gateway"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				got, err := a.login(ctx, args[0], name, strings.ToLower(strings.ReplaceAll(fingerprint, ":", "")))
				return a.Answer(got, err, func() string {
					return fmt.Sprintf("Logged in to %s as %s (%s). %s", got.URL, app.Visible(got.Key.Name), got.Key.Role,
						a.goTo(got.Context, "Commands go there; corral context use local ends that."))
				})
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME`: of the context (default the host of the URL)")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "`SHA256`: of the gateway's certificate, if this machine does not trust its signer")
	return app.WithJSON(cmd)
}

func (a commands) login(ctx context.Context, at, name, fingerprint string) (got loggedIn, err error) {
	u, err := url.Parse(strings.TrimSuffix(at, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return got, corral.Errorf(corral.ErrInvalid, "write it like https://gw.example.com:7777", "%.200q is no address of a gateway", at)
	}
	if err := reach.CheckSecret(u); err != nil {
		return got, err
	}
	name = cmp.Or(name, u.Hostname())
	if name == reach.LocalContext {
		return got, corral.Errorf(corral.ErrInvalid, "give another --name", "%s is the gateway of this machine", name)
	}
	if u.Scheme == "https" && fingerprint == "" {
		if err := reach.CheckTrusted(ctx, u); err != nil {
			return got, err
		}
	}
	key, err := a.readKey()
	if err != nil {
		return got, err
	}
	to := reach.Context{URL: u.String(), Fingerprint: fingerprint, Key: key}
	o := to.Options()
	o.Retry = -1
	c, err := client.New(o)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	self, err := c.Self(ctx)
	if err != nil {
		return got, err
	}
	if only, ok := (&access.Grant{Agents: self.Agents}).Only(); ok {
		to.Agent = only
	}
	_, err = reach.ChangeContexts(ctx, a.Getenv, func(all *reach.Contexts) error {
		all.Contexts[name], all.Current = to, name
		return nil
	})
	return loggedIn{name, to.URL, self}, err
}

// readKey asks for a key on the terminal without showing it, or reads standard input.
func (a commands) readKey() (string, error) {
	var data []byte
	var err error
	if terminal.Is(a.Stdin) {
		fmt.Fprint(a.Stderr, "Key: ")
		data, err = term.ReadPassword(int(a.Stdin.Fd()))
		fmt.Fprintln(a.Stderr)
	} else if a.Stdin != nil {
		data, err = io.ReadAll(io.LimitReader(a.Stdin, reach.MaxKey+1))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return "", fmt.Errorf("cannot read the key: %w", err)
	}
	key, ok := reach.ParseKey(string(data))
	if !ok {
		return "", corral.Errorf(corral.ErrInvalid, "the operator of the gateway makes one: corral keys create", "standard input has no key")
	}
	return key, nil
}

// contextRow is a context as corral context ls prints it as JSON: without its key.
type contextRow struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Current bool   `json:"current"`
}

func (a commands) contextCommand() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "context", Short: "Choose the gateway that commands go to",
		Long: `Choose the gateway that commands go to, of those that you logged in to (corral
login). local is the gateway of this machine. CORRAL_CONTEXT names one for a
single command; CORRAL_URL, --state-dir and CORRAL_STATE_DIR go before what is
chosen here.`,
		Example: "  corral context ls\n  corral context use lab\n  CORRAL_CONTEXT=local corral ps",
	}, a.contextLs(), a.contextUse(), a.contextRm())
}

func (a commands) contextLs() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List the contexts", Args: cmdline.NoArgs,
		Long: "List the gateways that you logged in to, and mark the one that commands go to.",
		RunE: func(*cobra.Command, []string) error {
			all, err := reach.ReadContexts(a.Getenv)
			if err != nil {
				return err
			}
			rows := []contextRow{{reach.LocalContext, "", all.Current == "" || all.Current == reach.LocalContext}}
			for _, name := range all.Names() {
				rows = append(rows, contextRow{name, all.Contexts[name].URL, all.Current == name})
			}
			return app.PrintList(a.App, rows, nil, func(r contextRow) string { return r.Name }, func() cmdline.Table {
				t := cmdline.Table{Headings: []string{"", "NAME", "URL"}}
				for _, r := range rows {
					mark := ""
					if r.Current {
						mark = "*"
					}
					t.Rows = append(t.Rows, []cmdline.Cell{{Text: mark}, {Text: app.Visible(r.Name)}, {Text: app.Visible(cmp.Or(r.URL, "the gateway of this machine"))}})
				}
				return t
			})
		},
	})
}

func (a commands) contextUse() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "use [flags] NAME", Short: "Have commands go to a gateway", Args: cmdline.Exactly("name of a context"), ValidArgsFunction: app.First(a.completeContexts),
		Long: "Have commands go to a gateway that you logged in to, or with local to that of this\nmachine.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), args[0], a.goTo(args[0], "Commands go to: "+app.Visible(args[0])), func(all *reach.Contexts) error {
				_, _, err := all.Get(args[0])
				all.Current = args[0]
				return err
			})
		},
	})
}

func (a commands) contextRm() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "rm [flags] NAME", Short: "Forget a gateway and the key for it", Aliases: []string{"remove"}, Args: cmdline.Exactly("name of a context"), ValidArgsFunction: app.First(a.completeContexts),
		Long: "Forget a gateway and the key for it. The key still works; corral keys revoke ends\nit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), args[0], "Forgotten: "+app.Visible(args[0]), func(all *reach.Contexts) error {
				if _, ok := all.Contexts[args[0]]; !ok {
					_, _, err := all.Get(cmp.Or(args[0], "-"))
					return cmp.Or(err, error(corral.Errorf(corral.ErrInvalid, "name another", "%s is the gateway of this machine", args[0])))
				}
				delete(all.Contexts, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
				return nil
			})
		},
	})
}

// goTo is said, if the choice of a context is what says where commands go, or else why
// it is not.
func (a commands) goTo(name, said string) string {
	before := reach.Before(a.Getenv, name)
	if len(before) == 0 {
		return said
	}
	return fmt.Sprintf("Commands do not go to %s while the environment has %s: unset %s", app.Visible(name), strings.Join(before, " or "), strings.Join(before, " "))
}

// changeContexts changes the contexts, prints what was done, and the one of that name.
func (a commands) changeContexts(ctx context.Context, name, said string, change func(*reach.Contexts) error) error {
	all, err := reach.ChangeContexts(ctx, a.Getenv, change)
	return a.Answer(contextRow{name, all.Contexts[name].URL, all.Current == name}, err, func() string { return said })
}

// completeContexts completes the names of contexts.
func (a commands) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := reach.ReadContexts(a.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Concat(all.Names(), []string{reach.LocalContext}), cobra.ShellCompDirectiveNoFileComp
}
