package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

const configLong = `Show, check and change the configuration file.

The file is JSON5: JSON with comments, trailing commas and keys without quotes.
docs/reference/config.md explains its keys; corral init writes a first one.

A PATH is written like agents.list[0].tools.exec.node.`

const configExample = `  corral config get agents.list
  corral config get tools.exec.security
  corral config set agents.list[0].tools.exec.node "node-id-or-name"
  corral config set sandbox.memory 4g
  corral config validate`

func (a commands) configCommand() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "config", Short: "Show, check and change the configuration",
		Long: configLong, Example: configExample,
	}, a.configGet(), a.configSet(), a.configUnset(), a.configValidate(), a.configSchema(), a.configPath())
}

func (a commands) configGet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get [flags] [PATH]", Short: "Print what a key comes to",
		Long: `Print what a key comes to: what it is set to, or what applies in its place. Of a
section, and without PATH of the whole file, print what the file has of it.

A string is printed as it is, anything else as JSON. --json adds where it is
from. The exit code is 1 if the key is not set and has no default.`,
		Args: cmdline.AtMost(1), ValidArgsFunction: a.completeKeys,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.Config()
			if err != nil {
				return err
			}
			v, err := c.Get(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if a.JSON() {
				return a.PrintJSON(v, nil)
			}
			if bytes.Equal(v.Value, []byte("null")) {
				return &app.ExitError{Code: app.ExitFindings, Text: fmt.Sprintf("%s is not set", v.Key)}
			}
			return a.PrintLine(readable(v.Value))
		},
	}
	cmd.Flags().Bool("json", false, "print JSON, with the file and line that it is from")
	return cmd
}

// readable is a string as it is, and other JSON in lines.
func readable(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var lines bytes.Buffer
	if json.Indent(&lines, value, "", "  ") != nil {
		return string(value)
	}
	return lines.String()
}

func (a commands) configSet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set [flags] PATH VALUE", Short: "Change one value in the file",
		Long: `Change one value in the file. The rest of it stays as it is, with its comments.
What would be a mistake is refused, and nothing is written. A file that is not
there is made.

VALUE is JSON5. Where a string is wanted the quotes may be left out.`,
		Args: cmdline.Exactly("PATH", "VALUE"), ValidArgsFunction: a.completeKeysAndWords,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeConfig(args[0], func(file string) (*config.Config, error) {
				return config.Edit{File: file}.Set(args[0], args[1])
			})
		},
	}
	cmd.Flags().Bool("json", false, "print JSON: the value, with the file and line where it is now")
	return cmd
}

func (a commands) configUnset() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unset [flags] PATH", Short: "Remove a key from the file",
		Long: `Remove a key from the file, or an element from a list in it. What applies in its
place is then what corral config get prints.`,
		Args: cmdline.Exactly("PATH"), ValidArgsFunction: a.completeKeys,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeConfig(args[0], func(file string) (*config.Config, error) {
				return config.Edit{File: file}.Unset(args[0])
			})
		},
	}
	cmd.Flags().Bool("json", false, "print JSON: the value that applies now, and where it is from")
	return cmd
}

func (a commands) changeConfig(key string, change func(file string) (*config.Config, error)) error {
	file, err := a.WritableConfig()
	if err != nil {
		return err
	}
	c, err := change(file)
	if err != nil {
		return err
	}
	if !a.JSON() {
		a.sayRestart(key)
		for _, useless := range doctor.UselessRules(c) {
			a.Warn(useless)
		}
		return nil
	}
	v, err := c.Get(key)
	if err != nil {
		return err
	}
	return a.PrintJSON(v, nil)
}

// sayRestart says that a gateway that runs does not follow a key.
func (a commands) sayRestart(key string) {
	if key != "sandbox.engine" && !strings.HasSuffix(key, ".sandbox.engine") {
		return
	}
	_, r, err := a.FindGateway()
	if err == nil && (r == nil || key != "sandbox.engine" || r.Engine != a.EngineChoice()) {
		a.Warn("The gateway that runs keeps the engine that it was started with: " + daemon.EngineRestart + ".")
	}
}

// validation is what corral config validate --json prints.
type validation struct {
	File     string           `json:"file"`
	Valid    bool             `json:"valid"`
	Mistakes []config.Mistake `json:"mistakes"`
}

func (a commands) configValidate() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "validate [flags] [FILE]", Short: "Report every mistake in the file",
		Long: `Report every mistake in the file, each with its line and column. The exit code is
1 if there is one.`,
		Args: cmdline.AtMost(1), ValidArgsFunction: app.First(completeFiles),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				a.ConfigFlag = args[0]
			}
			place, err := a.ConfigFile()
			if err != nil {
				return err
			}
			c, err := a.Config()
			var bad *config.Error
			if err != nil && !errors.As(err, &bad) {
				return err
			}
			file := place.Path
			v := validation{File: file, Valid: bad == nil, Mistakes: []config.Mistake{}}
			if bad != nil {
				v.Mistakes = bad.Mistakes
			}
			switch {
			case a.JSON() && bad != nil:
				return a.PrintJSON(v, &app.ExitError{Code: app.ExitFindings})
			case a.JSON():
				return a.PrintJSON(v, nil)
			case bad != nil:
				fmt.Fprintln(a.Stderr, strings.Join(app.Mistakes(bad), "\n"))
				return &app.ExitError{Code: app.ExitFindings}
			case !exists(file):
				return a.PrintLine("There is no " + file + ": the defaults apply.")
			}
			for _, useless := range doctor.UselessRules(c) {
				a.Warn(useless)
			}
			return a.PrintLine(file + " has no mistake.")
		},
	})
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func (a commands) configSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the file",
		Long: `Print the JSON Schema of the file (draft 2020-12): every key with what it means,
its values and its default. Editors complete and check the file with it.`,
		Args: cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.PrintLine(strings.TrimSuffix(string(config.Schema()), "\n"))
		},
	}
}

// configPlace is what corral config path --json prints.
type configPlace struct {
	File   string `json:"file"`
	Exists bool   `json:"exists"`
	Named  bool   `json:"named"` // by --config or CORRAL_CONFIG
}

func (a commands) configPath() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "path [flags]", Short: "Print where the file is, or would be",
		Args: cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := a.WritableConfig()
			if err != nil {
				return err
			}
			return a.Answer(configPlace{file, exists(file), a.ConfigFlag != ""}, nil, func() string { return file })
		},
	})
}

func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json5", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeKeys completes a path up to its next part.
func (a commands) completeKeys(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || a.ReadEnvironment(cmd.Flags()) != nil {
		return nil, app.NoFiles
	}
	var words []string
	for _, key := range a.keys() {
		rest, ok := strings.CutPrefix(key, word)
		if !ok {
			continue
		}
		if i := strings.IndexAny(rest, ".["); i >= 0 {
			key = word + rest[:i+1]
		}
		words = append(words, key)
	}
	slices.Sort(words)
	return slices.Compact(words), app.NoFiles | cobra.ShellCompDirectiveNoSpace
}

// keys are those of a file with the agents that are in the list.
func (a commands) keys() []string {
	agents := 1
	if c, err := a.Config(); err == nil {
		agents = max(1, len(c.Agents()))
	}
	var keys []string
	for _, key := range config.Keys() {
		first, rest, ofAgent := strings.Cut(key, "agents.list[0]")
		for i := range agents {
			if ofAgent {
				key = fmt.Sprintf("%sagents.list[%d]%s", first, i, rest)
			}
			keys = append(keys, key)
			if !ofAgent {
				break
			}
		}
	}
	return keys
}

func (a commands) completeKeysAndWords(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return config.Words(args[0]), app.NoFiles
	}
	return a.completeKeys(cmd, args, word)
}
