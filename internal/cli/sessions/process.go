package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/tool"
)

// An action is a subcommand of corral process: one action of the tool.
type action struct {
	name  tool.Action
	use   string // after the name; empty: only flags
	short string
	long  string
	args  int // at least, with the session's ID
	more  bool
	flags func(*cobra.Command, *tool.ProcessRequest)
	// fill takes the arguments after the session's ID.
	fill func(a *app.App, args []string, r *tool.ProcessRequest) error
}

func (a commands) processCommand() *cobra.Command {
	cmd := app.Group(&cobra.Command{
		Use:   "process",
		Short: "Do with a session what an agent does by the tool process",
		Long: `Do with a session what an agent does by the tool process, and print what it gets:
the text for a model, or with --json the result. corral ps, logs, attach, kill and
wait do the same for people.`,
		Example: `  corral process send-keys repl 'print(6*7)' Enter
  corral process wait repl --pattern '>>> $'`,
	})
	for _, act := range a.actions() {
		cmd.AddCommand(a.actionCommand(act))
	}
	return cmd
}

func (a commands) actionCommand(act action) *cobra.Command {
	var agent string
	req := &tool.ProcessRequest{Action: act.name}
	cmd := &cobra.Command{
		Use: strings.TrimSpace(string(act.name) + " [flags] " + act.use), Short: act.short, Long: act.long,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case act.args == 0:
				return cmdline.NoArgs(cmd, args)
			case len(args) < act.args:
				return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants: %s", cmd.CommandPath(), act.use)
			case !act.more:
				return cmdline.AtMost(act.args)(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), agent, func(ctx context.Context, c *client.Client) error {
				if act.args > 0 {
					p, err := reach.Session(ctx, c, args[0])
					if err != nil {
						return err
					}
					req.SessionID = p.Info().ID
				}
				if act.fill != nil {
					if err := act.fill(a.App, args[1:], req); err != nil {
						return err
					}
				}
				return a.process(ctx, c, req)
			})
		},
	}
	if act.args > 0 {
		cmd.ValidArgsFunction = a.completeAction(act)
	}
	if act.flags != nil {
		act.flags(cmd, req)
	}
	a.AddAgentFlag(cmd, &agent)
	app.AddJSONFlag(cmd)
	cmd.Flags().SortFlags = false
	return cmd
}

// process calls the tool, and prints what it says.
func (a commands) process(ctx context.Context, c *client.Client, req *tool.ProcessRequest) error {
	result, err := c.Process(ctx, *req)
	if err != nil {
		return err
	}
	var end error
	if result.Failed() {
		end = corral.Errorf(kindOf(result.Reason), result.Hint, "%s", result.Error)
	}
	if a.JSON() {
		return a.PrintJSON(result, end)
	}
	if end != nil {
		return end
	}
	return a.PrintLine(strings.TrimSuffix(result.Text(), "\n"))
}

// kindOf is the error that a result's reason stands for.
func kindOf(reason tool.Reason) error {
	switch reason {
	case tool.ReasonInvalid:
		return corral.ErrInvalid
	case tool.ReasonDenied:
		return corral.ErrDenied
	case tool.ReasonLost:
		return corral.ErrLost
	}
	return corral.ErrUnavailable
}

const maxStdin = tool.MaxArguments / 4 // what is not text grows in JSON

// textOrInput is the argument, or with "-" all of standard input.
func textOrInput(a *app.App, args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case args[0] != "-":
		return args[0], nil
	}
	data, err := io.ReadAll(io.LimitReader(a.Stdin, maxStdin+1))
	if err == nil && len(data) > maxStdin {
		err = fmt.Errorf("there are more than %d bytes", maxStdin)
	}
	if err != nil {
		return "", corral.Errorf(corral.ErrInvalid, "corral attach passes on any amount", "cannot use standard input: %w", err)
	}
	return string(data), nil
}

// actions are those of the tool, but for attach, which is corral attach.
func (a commands) actions() []action {
	const id = "ID"
	timeout := func(what string, most time.Duration) func(*cobra.Command, *tool.ProcessRequest) {
		return func(cmd *cobra.Command, r *tool.ProcessRequest) {
			cmd.Flags().Func("timeout", "`TIME`: "+what, wait(&r.Timeout, most))
		}
	}
	return []action{
		{name: tool.ActionList, short: "List the sessions of an agent"},
		{name: tool.ActionPoll, use: id, args: 1, short: "Print the output since the last poll",
			flags: timeout("how long to wait for output, such as 30 or 2m (default not at all)", tool.MaxPoll)},
		{name: tool.ActionLog, use: id, args: 1, short: "Print lines of the output", flags: logFlags},
		{name: tool.ActionWrite, use: id + " [DATA]", args: 1, more: true, short: "Write to standard input",
			long: "Write to standard input, as it stands: a line needs its newline. DATA - is what\ncorral reads from its own.",
			flags: func(cmd *cobra.Command, r *tool.ProcessRequest) {
				cmd.Flags().BoolVar(&r.EOF, "eof", false, "then close standard input")
			},
			fill: func(a *app.App, args []string, r *tool.ProcessRequest) (err error) {
				r.Data, err = onlyText(a, args)
				return err
			}},
		{name: tool.ActionSendKeys, use: id + " [KEY]...", args: 1, more: true, short: "Type keys, by their names in tmux",
			long: "Type keys, by their names in tmux (Enter, Up, C-c, M-x, F5), and single\ncharacters. What is no key's name is typed as it stands.",
			flags: func(cmd *cobra.Command, r *tool.ProcessRequest) {
				cmd.Flags().StringVar(&r.Literal, "literal", "", "`TEXT`: type this first, as it stands")
				cmd.Flags().StringArrayVar(&r.Hex, "hex", nil, "`BYTES`: then these, in hexadecimal; may be repeated")
			},
			fill: func(_ *app.App, args []string, r *tool.ProcessRequest) error { r.Keys = args; return checkHex(r.Hex) }},
		{name: tool.ActionSubmit, use: id, args: 1, short: "Press Enter"},
		{name: tool.ActionPaste, use: id + " TEXT", args: 2, short: "Paste text in one piece",
			long: "Paste text in one piece, marked as pasted on a terminal. TEXT - is what corral\nreads from its standard input.",
			flags: func(cmd *cobra.Command, r *tool.ProcessRequest) {
				bracketed := true
				r.Bracketed = &bracketed
				cmd.Flags().BoolVar(r.Bracketed, "bracketed", true, "mark it as pasted; =false does not")
			},
			fill: func(a *app.App, args []string, r *tool.ProcessRequest) (err error) {
				r.Text, err = onlyText(a, args)
				return err
			}},
		{name: tool.ActionResize, use: id, args: 1, short: "Set the size of the terminal", flags: sizeFlags,
			fill: func(_ *app.App, _ []string, r *tool.ProcessRequest) error {
				if r.Rows == nil || r.Cols == nil {
					return corral.Errorf(corral.ErrInvalid, "as in --rows 24 --cols 80", "a size has --rows and --cols")
				}
				return nil
			}},
		{name: tool.ActionWait, use: id, args: 1, short: "Wait for the end, for output or for a pattern", flags: func(cmd *cobra.Command, r *tool.ProcessRequest) {
			cmdline.AddChoice(cmd, (*string)(&r.Until), "until", "what for (default the pattern if there is one, else exit)",
				string(tool.UntilExit), string(tool.UntilOutput), string(tool.UntilPattern))
			cmd.Flags().StringVar(&r.Pattern, "pattern", "", "`REGEXP`: to be found in output that no poll has returned")
			timeout("how long to wait, 10m at most (default 30s)", tool.MaxWait)(cmd, r)
		}},
		{name: tool.ActionKill, use: id, args: 1, short: "End a session"},
		{name: tool.ActionClear, use: id, args: 1, short: "Forget a session that has ended"},
		{name: tool.ActionRemove, use: id, args: 1, short: "End a session if it runs, and forget it"},
	}
}

// checkHex refuses digits that the tool would leave out without a word.
func checkHex(lists []string) error {
	for _, list := range lists {
		for digits := range strings.FieldsFuncSeq(list, func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) }) {
			bare := strings.TrimPrefix(strings.ToLower(digits), "0x")
			if _, err := strconv.ParseUint(bare, 16, 8); err != nil || len(bare) > 2 {
				return corral.Errorf(corral.ErrInvalid, "write each byte with one or two digits, as in --hex '1b 5b 41'", "--hex: %q is not hexadecimal", digits)
			}
		}
	}
	return nil
}

func onlyText(a *app.App, args []string) (string, error) {
	if len(args) > 1 {
		return "", corral.Errorf(corral.ErrInvalid, "quote it", "there are %d arguments, and the text is one", len(args))
	}
	text, err := textOrInput(a, args)
	if err == nil && !utf8.ValidString(text) { // in JSON it would be another text
		err = corral.Errorf(corral.ErrInvalid, "corral attach passes on any bytes, and send-keys --hex types them", "the text is not UTF-8")
	}
	return text, err
}

func logFlags(cmd *cobra.Command, r *tool.ProcessRequest) {
	cmd.Flags().Func("offset", "`LINE`: the first line, from 0", whole(&r.Offset))
	cmd.Flags().Func("limit", "`N`: how many lines; without --offset, the last ones (default 200)", whole(&r.Limit))
}

func sizeFlags(cmd *cobra.Command, r *tool.ProcessRequest) {
	cmd.Flags().Func("rows", "`N`: lines of the terminal", whole(&r.Rows))
	cmd.Flags().Func("cols", "`N`: columns of the terminal", whole(&r.Cols))
}

// whole sets a number that may be left out.
func whole(n **int) func(string) error {
	return func(s string) error {
		var v lineCount
		if err := v.Set(s); err != nil || v == allLines {
			return errors.New("use a whole number, not negative")
		}
		*n = (*int)(&v)
		return nil
	}
}

// wait sets a time in milliseconds that may be left out.
func wait(ms **int, most time.Duration) func(string) error {
	return func(s string) error {
		d, err := cmdline.ParseSeconds(s)
		if err != nil {
			return errors.New("use seconds, such as 90 or 0.5, or a duration, such as 2m")
		}
		if d > most {
			return errors.New("it is more than " + (*cmdline.Seconds)(&most).String() + ", the most that one call waits; corral wait waits for as long as it takes")
		}
		n := int(d.Milliseconds())
		*ms = &n
		return nil
	}
}

// keyNames are completed, as far as one would type them.
var keyNames = []string{
	"Enter", "Tab", "BTab", "Escape", "Space", "BSpace", "Up", "Down", "Left", "Right", "Home", "End", "PageUp", "PageDown",
	"Insert", "Delete", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12",
	"C-a", "C-c", "C-d", "C-e", "C-k", "C-l", "C-r", "C-u", "C-w", "C-z", "M-b", "M-f",
}

func (a commands) completeAction(act action) cobra.CompletionFunc {
	var running *bool
	switch act.name {
	case tool.ActionWrite, tool.ActionSendKeys, tool.ActionSubmit, tool.ActionPaste, tool.ActionResize, tool.ActionKill:
		running = new(true)
	case tool.ActionClear:
		running = new(false)
	}
	sessions := a.CompleteSessions(1, running)
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && act.name == tool.ActionSendKeys {
			return keyNames, app.NoFiles
		}
		return sessions(cmd, args, word)
	}
}
