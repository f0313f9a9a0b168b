package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// sandboxFileCommands are those of corral sandbox that are about files.
func (a commands) fileCommands() []*cobra.Command {
	return []*cobra.Command{a.copy(), a.cat(), a.listFiles()}
}

// fileFlags say by which way the files of a sandbox are reached.
type fileFlags struct {
	agent string
	local bool
}

func (a commands) addFileFlags(cmd *cobra.Command, o *fileFlags) {
	a.AddSandboxesFlags(cmd)
	cmd.Flags().StringVar(&o.agent, "agent", "", "`NAME`: whose sandbox it is, of a gateway (default its owner)")
	cmd.Flags().BoolVar(&o.local, "local", false, "leave a gateway that runs alone")
}

func (a commands) copy() *cobra.Command {
	var o fileFlags
	cmd := &cobra.Command{
		Use:   "cp [flags] NAME:PATH LOCAL | cp [flags] LOCAL NAME:PATH",
		Short: "Copy files into a sandbox, or out of it",
		Long: `Copy a file, or a directory with what is in it, between this machine and a
sandbox, as cp -R does: into what is named last if that is a directory, and else
under that name. Of a directory that is named with /. at the end, what is in it
is copied. With - for LOCAL it is a tar archive on standard input or output.

A path without a leading / is relative to the workspace. Links are copied as
links. What comes into a sandbox belongs to its user. Without a gateway, give the
flags that commands of the sandbox are given.`,
		Example: `  corral sandbox cp data.csv main:/workspace/
  corral sandbox cp main:report.pdf .
  corral sandbox cp main:/workspace - | tar tv`,
		Args: cmdline.Exactly("SOURCE", "DESTINATION"), ValidArgsFunction: a.completeSandboxPath,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := parseSandboxPath(args[0]), parseSandboxPath(args[1])
			if (from.sandbox == "") == (to.sandbox == "") {
				return corral.Errorf(corral.ErrInvalid, "write a path in a sandbox as NAME:PATH, and one of this machine that has a colon in it as ./PATH",
					"one of %s and %s has to be in a sandbox, and the other not", args[0], args[1])
			}
			name := cmp.Or(from.sandbox, to.sandbox)
			return a.withFiles(cmd.Context(), o, name, func(ctx context.Context, f files.FS) error {
				copied := a.copyIn
				if from.sandbox != "" {
					copied = a.copyOut
				}
				got, err := copied(ctx, f, from.path, to.path)
				switch {
				case got.Skipped == 0:
				case got.Entries == 0 && err == nil: // it is all that was named
					return corral.Errorf(corral.ErrInvalid, "", "%s is a device, a FIFO or a socket, which are not copied", args[0])
				default:
					a.Warn(fmt.Sprintf("Devices, FIFOs and sockets that were left out: %d.", got.Skipped))
				}
				return err
			})
		},
	}
	a.addFileFlags(cmd, &o)
	return cmd
}

// cpLimits are those of one's own machine, whose owner asks for it.
var cpLimits = files.Limits{Bytes: 1 << 40, Entries: 5_000_000, Depth: 1000}

// copyOut copies to this machine. A sandbox is hostile: its archive is unpacked by the
// same rules as one that comes into a sandbox.
func (a commands) copyOut(ctx context.Context, f files.FS, src, dst string) (files.Totals, error) {
	if dst == "-" {
		return f.Download(ctx, src, a.Stdout, cpLimits)
	}
	to, name, err := files.Local(dst)
	if err != nil {
		return files.Totals{}, err
	}
	return files.Copy(ctx, f, src, to, name, cpLimits)
}

func (a commands) copyIn(ctx context.Context, f files.FS, src, dst string) (files.Totals, error) {
	if src == "-" {
		return f.Upload(ctx, dst, a.Stdin, files.DefaultLimits)
	}
	from, name, err := files.Local(src)
	if err != nil {
		return files.Totals{}, err
	}
	return files.Copy(ctx, from, name, f, dst, files.DefaultLimits)
}

func (a commands) cat() *cobra.Command {
	var o fileFlags
	cmd := &cobra.Command{
		Use: "cat [flags] NAME:PATH...", Short: "Write files of a sandbox to standard output",
		Example:           `  corral sandbox cat main:notes.txt`,
		ValidArgsFunction: a.completeSandboxPath,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachSandboxPath(cmd, o, args, func(ctx context.Context, f files.FS, p sandboxPath) error {
				return f.Read(ctx, p.path, files.ReadOptions{}, func(files.Info) (io.Writer, error) { return a.Stdout, nil })
			})
		},
	}
	a.addFileFlags(cmd, &o)
	return cmd
}

func (a commands) listFiles() *cobra.Command {
	var o fileFlags
	cmd := &cobra.Command{
		Use: "ls-files [flags] NAME[:PATH]...", Short: "List directories of a sandbox",
		Long: `List what is in directories of a sandbox: permissions as ls -l shows them, owner,
size, time and name.
Without a path it is the workspace. A name that has other than printable
characters in it is quoted.`,
		Example:           "  corral sandbox ls-files main\n  corral sandbox ls-files --json main:/tmp | jq -r '.[].path'",
		ValidArgsFunction: a.completeSandboxPath,
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, arg := range args {
				if !strings.Contains(arg, ":") {
					args[i] += ":."
				}
			}
			all := []files.Info{}
			err := a.eachSandboxPath(cmd, o, args, func(ctx context.Context, f files.FS, p sandboxPath) error {
				for after := ""; ; {
					page, err := f.List(ctx, p.path, files.ListOptions{After: after, Limit: files.MaxPage})
					if err != nil {
						return err
					}
					if a.JSON() {
						all = append(all, page.Entries...)
					} else if err := printFiles(a.Stdout, page.Entries); err != nil {
						return err
					}
					if after = page.Next; after == "" {
						return nil
					}
				}
			})
			if a.JSON() && err == nil {
				return a.PrintJSON(all, nil)
			}
			return err
		},
	}
	a.addFileFlags(cmd, &o)
	return app.WithJSON(cmd)
}

func printFiles(w io.Writer, list []files.Info) error {
	for _, i := range list {
		name := plainName(path.Base(i.Path))
		if i.Type == files.TypeLink {
			name += " -> " + plainName(i.Target)
		}
		if _, err := fmt.Fprintf(w, "%s %5d:%-5d %12d %s %s\n", i.Permissions(), i.UID, i.GID, i.Size, i.ModTime.Local().Format("2006-01-02 15:04"), name); err != nil {
			return err
		}
	}
	return nil
}

// plainName is a name that does nothing to a terminal.
func plainName(name string) string {
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

// A sandboxPath is a path of a sandbox, or of this machine.
type sandboxPath struct{ sandbox, path string }

var sandboxPathPattern = lazy.Regexp(`^([A-Za-z0-9][A-Za-z0-9_.-]{0,63}):(.*)$`)

// parseSandboxPath reads NAME:PATH. Everything else is of this machine.
func parseSandboxPath(text string) sandboxPath {
	m := sandboxPathPattern().FindStringSubmatch(text)
	if m == nil {
		return sandboxPath{path: text}
	}
	return sandboxPath{sandbox: m[1], path: cmp.Or(m[2], ".")}
}

func (a commands) eachSandboxPath(cmd *cobra.Command, o fileFlags, args []string, do func(context.Context, files.FS, sandboxPath) error) error {
	if len(args) == 0 {
		return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants a path in a sandbox, as NAME:PATH", cmd.CommandPath())
	}
	var errs []error
	for _, arg := range args {
		p := parseSandboxPath(arg)
		if p.sandbox == "" {
			return corral.Errorf(corral.ErrInvalid, "write NAME:PATH", "%q is not a path in a sandbox", arg)
		}
		errs = append(errs, a.withFiles(cmd.Context(), o, p.sandbox, func(ctx context.Context, f files.FS) error { return do(ctx, f, p) }))
	}
	return errors.Join(errs...)
}

// withFiles does something with the files of a sandbox: the gateway's if one
// runs, and else that of the state directory.
func (a commands) withFiles(ctx context.Context, o fileFlags, name string, do func(context.Context, files.FS) error) error {
	if !o.local {
		c, err := a.clientOf(ctx, o.agent, name)
		if err == nil {
			return errors.Join(do(ctx, c.Files(name)), c.Close())
		}
		if !errors.Is(err, reach.ErrNoGateway) {
			return err
		}
	}
	if err := a.Configure(cmp.Or(o.agent, session.DefaultAgent)); err != nil {
		return err
	}
	dir, err := a.StateDir()
	if err != nil {
		return err
	}
	if _, err := sandbox.Find(dir, name); err != nil {
		return err
	}
	s := a.Settings
	s.Name = name
	ex, err := a.Backends.Sandbox(daemon.SandboxOptions{Settings: s, StateDir: dir, Progress: a.Progress()})
	if err != nil {
		return err
	}
	f, err := daemon.FilesOf(ctx, ex, name)
	if err == nil {
		err = do(ctx, f)
	}
	return errors.Join(err, ex.Close())
}

// clientOf is a client for the files of a sandbox: of an agent, which need not have a
// sandbox yet; if none is named, of the owner of a sandbox that there is.
func (a commands) clientOf(ctx context.Context, agent, name string) (*client.Client, error) {
	c, err := a.Connect(cmp.Or(agent, session.DefaultAgent))
	if err != nil || agent != "" {
		return c, err
	}
	s, err := c.Sandbox(ctx, name)
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	return a.Connect(cmp.Or(s.Agent, name))
}

// completeSandboxPath completes the name of a sandbox, and files of this machine.
func (a commands) completeSandboxPath(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, ":") || strings.ContainsRune(word, '/') {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, directive := a.CompleteSandboxes(cmd, args, word)
	for i := range names {
		names[i] += ":"
	}
	if cmd.Name() == "cp" {
		directive = cobra.ShellCompDirectiveDefault
	}
	return names, directive | cobra.ShellCompDirectiveNoSpace
}
