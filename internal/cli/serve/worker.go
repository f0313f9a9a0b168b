package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/inspect"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/tool/claude/job"
)

func (a commands) workerCommand() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "worker", Short: "Do the work that a service has for self-hosted sandboxes",
	}, a.workerClaude())
}

const workerClaudeLong = `Run the tools of Claude's managed agents in sandboxes of the gateway. The worker
takes the sessions of a self-hosted environment from its queue, and runs each
call of bash, read, write, edit, glob and grep as a command of an agent of the
gateway: with its policy, in its sandbox, and listed by corral ps.

All connections go out. The environment's key comes from --key-file, or from
ANTHROPIC_ENVIRONMENT_KEY; no command sees it. The worker runs until a signal.`

type workerFlags struct {
	job.Job
	keyFile, agent string
	loggerFlags
}

func (a commands) workerClaude() *cobra.Command {
	o := &workerFlags{}
	cmd := &cobra.Command{
		Use: "claude [flags]", Short: "Run the tools of Claude's managed agents in sandboxes",
		Long: workerClaudeLong, Example: "  corral worker claude --environment env_01ABC --key-file claude.key",
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Stays()
			return a.runWorkerClaude(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Environment, "environment", "", "`ID`: of the self-hosted environment")
	f.StringVar(&o.keyFile, "key-file", "", "`FILE`: with the environment's key")
	f.IntVar(&o.Sessions, "sessions", 4, "`N`: sessions at a time; the others wait in the queue")
	f.StringVar(&o.API, "api", job.API, "`URL`: of the API")
	cmdline.Must(f.SetAnnotation("environment", cmdline.EnvAnnotation, []string{"ANTHROPIC_ENVIRONMENT_ID"}))
	cmdline.Must(f.SetAnnotation("api", cmdline.EnvAnnotation, []string{"ANTHROPIC_BASE_URL"}))
	cmdline.Must(cmd.MarkFlagFilename("key-file"))
	a.AddAgentFlag(cmd, &o.agent)
	o.loggerFlags.add(cmd)
	return cmd
}

// checkWorkerClaude says what is wrong with the flags.
func checkWorkerClaude(o *workerFlags) error {
	if o.Environment == "" {
		return corral.Errorf(corral.ErrInvalid, "give --environment ID, as Claude's console shows it", "it is not said which environment the work is for")
	}
	if o.Sessions < 1 {
		return corral.Errorf(corral.ErrInvalid, "use 1 or more", "--sessions %d: no session could run", o.Sessions)
	}
	u, err := url.Parse(o.API)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return corral.Errorf(corral.ErrInvalid, "write it like "+job.API, "--api %.200q is no address", o.API)
	}
	return reach.CheckSecret(u)
}

// runWorkerClaude works until a signal.
func (a commands) runWorkerClaude(ctx context.Context, o *workerFlags) (err error) {
	if err := checkWorkerClaude(o); err != nil {
		return err
	}
	if o.Key, err = a.environmentKey(o.keyFile); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := inspect.FindProgram("sessions of Claude are served", job.Program, filepath.Dir(exe), inspect.Install(job.Program))
	if err != nil {
		return err
	}
	ctx, stop := foreground.Serving(ctx)
	defer stop()
	if o.Gateway, _, err = a.FindGateway(); err != nil {
		return err
	}
	app.ActFor(&o.Gateway, o.agent)
	o.Gateway.Retry = reach.AwayLimit
	if err := sandboxed(ctx, o.Gateway); err != nil {
		return err
	}
	o.LogJSON, o.Level = o.logFormat == "json", o.level(a.Quiet).String()
	// The SDK reads such variables where an item of the queue has no value.
	environ := slices.DeleteFunc(slices.Clone(a.Environ), func(kv string) bool { return strings.HasPrefix(kv, "ANTHROPIC_") })
	err = job.Run(ctx, program, environ, a.Stderr, o.Job)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return &app.ExitError{Code: exit.ExitCode()}
	}
	return err
}

// environmentKey reads the key of an environment.
func (a commands) environmentKey(file string) (string, error) {
	const hint = "the console of Claude makes one, with the environment"
	if file == "" {
		if key, ok := reach.ParseKey(a.Getenv("ANTHROPIC_ENVIRONMENT_KEY")); ok {
			return key, nil
		}
		return "", corral.Errorf(corral.ErrInvalid, "give --key-file FILE, or set ANTHROPIC_ENVIRONMENT_KEY; "+hint, "there is no key of the environment")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", corral.Errorf(corral.ErrInvalid, hint, "cannot read the environment's key: %w", err)
	}
	key, ok := reach.ParseKey(string(text))
	if !ok {
		return "", corral.Errorf(corral.ErrInvalid, hint, "%s has no key", file)
	}
	return key, nil
}

// sandboxed checks that a gateway runs the commands of the host sandbox in a sandbox.
func sandboxed(ctx context.Context, at client.Options) (err error) {
	c, err := client.New(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r, err := c.Explain(ctx, corral.Command{Shell: ":", Host: corral.HostSandbox}, client.ExplainOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("cannot ask the gateway where commands run: %w", err)
	case r.Route.Host != corral.HostSandbox:
		return corral.Errorf(corral.ErrDenied, "corral config set sandbox.mode all, and start it again", "commands of the agent %s do not run in a sandbox at this gateway", cmp.Or(at.Agent, r.Agent))
	}
	return nil
}
