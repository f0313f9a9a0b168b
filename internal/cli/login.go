package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/state/selfcert"
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

func (a *app) loginCommand() *cobra.Command {
	var name, fingerprint string
	cmd := &cobra.Command{
		Use: "login [flags] URL", Short: "Have commands go to a gateway elsewhere", Long: loginLong,
		Example: `  corral login https://gw.example.com:7777
  corral login https://10.0.0.5:7777 --fingerprint 9f86d081… < key`,
		Args: cmdline.Exactly("URL of a gateway"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				got, err := a.login(ctx, args[0], name, strings.ToLower(strings.ReplaceAll(fingerprint, ":", "")))
				return a.answer(got, err, func() string {
					return fmt.Sprintf("Logged in to %s as %s (%s). %s", got.URL, visible(got.Key.Name), got.Key.Role,
						a.goTo(got.Context, "Commands go there; corral context use local ends that."))
				})
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME`: of the context (default the host of the URL)")
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "`SHA256`: of the gateway's certificate, if this machine does not trust its signer")
	return withJSON(cmd)
}

func (a *app) login(ctx context.Context, at, name, fingerprint string) (got loggedIn, err error) {
	u, err := url.Parse(strings.TrimSuffix(at, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return got, corral.Errorf(corral.ErrInvalid, "write it like https://gw.example.com:7777", "%.200q is no address of a gateway", at)
	}
	if err := secret(u); err != nil {
		return got, err
	}
	name = cmp.Or(name, u.Hostname())
	if name == reach.LocalContext {
		return got, corral.Errorf(corral.ErrInvalid, "give another --name", "%s is the gateway of this machine", name)
	}
	if u.Scheme == "https" && fingerprint == "" {
		if err := trusted(ctx, u); err != nil {
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
	_, err = reach.ChangeContexts(ctx, a.getenv, func(all *reach.Contexts) error {
		all.Contexts[name], all.Current = to, name
		return nil
	})
	return loggedIn{name, to.URL, self}, err
}

// secret refuses to send a key over a network that others can read.
func secret(u *url.URL) error {
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return corral.Errorf(corral.ErrDenied, "use https://", "a key would be sent to %s for all on the way to read", u.Host)
	}
	return nil
}

// trusted says what certificate a gateway shows, if it is none that this machine trusts.
func trusted(ctx context.Context, u *url.URL) error {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		return conn.Close()
	}
	if bad := (*tls.CertificateVerificationError)(nil); errors.As(err, &bad) && len(bad.UnverifiedCertificates) > 0 {
		return corral.Errorf(corral.ErrDenied, "if the gateway's log has the same, add --fingerprint "+selfcert.Fingerprint(bad.UnverifiedCertificates[0].Raw),
			"%s shows a certificate that this machine does not trust: %w", u.Host, bad.Err)
	}
	return corral.Errorf(corral.ErrUnavailable, "check the address", "cannot reach %s: %w", u.Host, err)
}

// maxKey bounds what is read as a key, in bytes.
const maxKey = 4096

// readKey asks for a key on the terminal without showing it, or reads standard input.
func (a *app) readKey() (string, error) {
	var data []byte
	var err error
	if terminal.Is(a.stdin) {
		fmt.Fprint(a.stderr, "Key: ")
		data, err = term.ReadPassword(int(a.stdin.Fd()))
		fmt.Fprintln(a.stderr)
	} else if a.stdin != nil {
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxKey+1))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return "", fmt.Errorf("cannot read the key: %w", err)
	}
	key, ok := parseKey(string(data))
	if !ok {
		return "", corral.Errorf(corral.ErrInvalid, "the operator of the gateway makes one: corral keys create", "standard input has no key")
	}
	return key, nil
}

// parseKey is a key as a file or a variable has it: one word.
func parseKey(text string) (key string, ok bool) {
	key = strings.TrimSpace(text)
	return key, key != "" && len(text) <= maxKey && !strings.ContainsAny(key, " \n\r\t")
}

// contextRow is a context as corral context ls prints it as JSON: without its key.
type contextRow struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Current bool   `json:"current"`
}

func (a *app) contextCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "context", Short: "Choose the gateway that commands go to",
		Long: `Choose the gateway that commands go to, of those that you logged in to (corral
login). local is the gateway of this machine. CORRAL_CONTEXT names one for a
single command; CORRAL_URL, --state-dir and CORRAL_STATE_DIR go before what is
chosen here.`,
		Example: "  corral context ls\n  corral context use lab\n  CORRAL_CONTEXT=local corral ps",
	}, a.contextLs(), a.contextUse(), a.contextRm())
}

func (a *app) contextLs() *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List the contexts", Args: cmdline.NoArgs,
		Long: "List the gateways that you logged in to, and mark the one that commands go to.",
		RunE: func(*cobra.Command, []string) error {
			all, err := reach.ReadContexts(a.getenv)
			if err != nil {
				return err
			}
			rows := []contextRow{{reach.LocalContext, "", all.Current == "" || all.Current == reach.LocalContext}}
			for _, name := range all.Names() {
				rows = append(rows, contextRow{name, all.Contexts[name].URL, all.Current == name})
			}
			return printList(a, rows, nil, func(r contextRow) string { return r.Name }, func() cmdline.Table {
				t := cmdline.Table{Headings: []string{"", "NAME", "URL"}}
				for _, r := range rows {
					mark := ""
					if r.Current {
						mark = "*"
					}
					t.Rows = append(t.Rows, []cmdline.Cell{{Text: mark}, {Text: visible(r.Name)}, {Text: visible(cmp.Or(r.URL, "the gateway of this machine"))}})
				}
				return t
			})
		},
	})
}

func (a *app) contextUse() *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "use [flags] NAME", Short: "Have commands go to a gateway", Args: cmdline.Exactly("name of a context"), ValidArgsFunction: first(a.completeContexts),
		Long: "Have commands go to a gateway that you logged in to, or with local to that of this\nmachine.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), args[0], a.goTo(args[0], "Commands go to: "+visible(args[0])), func(all *reach.Contexts) error {
				_, _, err := all.Get(args[0])
				all.Current = args[0]
				return err
			})
		},
	})
}

func (a *app) contextRm() *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "rm [flags] NAME", Short: "Forget a gateway and the key for it", Aliases: []string{"remove"}, Args: cmdline.Exactly("name of a context"), ValidArgsFunction: first(a.completeContexts),
		Long: "Forget a gateway and the key for it. The key still works; corral keys revoke ends\nit.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), args[0], "Forgotten: "+visible(args[0]), func(all *reach.Contexts) error {
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
func (a *app) goTo(name, said string) string {
	before := reach.Before(a.getenv, name)
	if len(before) == 0 {
		return said
	}
	return fmt.Sprintf("Commands do not go to %s while the environment has %s: unset %s", visible(name), strings.Join(before, " or "), strings.Join(before, " "))
}

// changeContexts changes the contexts, prints what was done, and the one of that name.
func (a *app) changeContexts(ctx context.Context, name, said string, change func(*reach.Contexts) error) error {
	all, err := reach.ChangeContexts(ctx, a.getenv, change)
	return a.answer(contextRow{name, all.Contexts[name].URL, all.Current == name}, err, func() string { return said })
}

// completeContexts completes the names of contexts.
func (a *app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := reach.ReadContexts(a.getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Concat(all.Names(), []string{reach.LocalContext}), cobra.ShellCompDirectiveNoFileComp
}
