package cmdline

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/corral-exec/corral"
)

// EnvAnnotation marks a flag that an environment variable sets.
const EnvAnnotation = "corral_env"

// GroupAnnotation marks the heading of a flag.
const GroupAnnotation = "corral_group"

// Group puts flags under a heading of the help.
func Group(f *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		Must(f.SetAnnotation(name, GroupAnnotation, []string{heading}))
	}
}

// WriteHelp prints what a command is for, in so many columns.
func WriteHelp(w io.Writer, cmd *cobra.Command, width int) {
	text := cmd.Long
	text = cmp.Or(text, cmd.Short+".")
	fmt.Fprintln(w, text)
	fmt.Fprintln(w, "\nUsage:")
	switch {
	case cmd.Runnable() && !cmd.HasSubCommands():
		parent := ""
		if cmd.HasParent() {
			parent = cmd.Parent().CommandPath() + " "
		}
		for use := range strings.SplitSeq(cmd.Use, " | ") {
			fmt.Fprintf(w, "  %s%s\n", parent, use)
		}
	default:
		if strings.Contains(cmd.Use, "[flags]") { // it does something by itself as well
			fmt.Fprintf(w, "  %s [flags]\n", cmd.CommandPath())
		}
		fmt.Fprintf(w, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-*s %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	printFlags(w, cmd, width)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
	}
}

// printFlags prints the flags of cmd under their headings, in the order in
// which they were defined, and those of every command last.
func printFlags(w io.Writer, cmd *cobra.Command, width int) {
	var headings []string
	flags := make(map[string][]*pflag.Flag)
	add := func(heading string, f *pflag.Flag) {
		if flags[heading] == nil {
			headings = append(headings, heading)
		}
		flags[heading] = append(flags[heading], f)
	}
	global := cmd.Root().PersistentFlags()
	own := cmd.Flags()
	own.SortFlags = false
	own.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || global.Lookup(f.Name) != nil {
			return
		}
		heading := "Flags"
		if g := f.Annotations[GroupAnnotation]; len(g) > 0 {
			heading = g[0]
		}
		add(heading, f)
	})
	global.SortFlags = false
	global.VisitAll(func(f *pflag.Flag) { add("Flags of every command", f) })
	for _, heading := range headings {
		fmt.Fprintf(w, "\n%s:\n", heading)
		for _, f := range flags[heading] {
			printFlag(w, f, width)
		}
	}
}

// usageColumn is where the explanation of a flag begins.
const usageColumn = 28

func printFlag(w io.Writer, f *pflag.Flag, width int) {
	left := "      --" + f.Name
	if f.Shorthand != "" {
		left = "  -" + f.Shorthand + ", --" + f.Name
	}
	arg, usage := Argument(f)
	if arg != "" {
		left += " " + arg
	}
	switch f.DefValue {
	case "", "false", "[]", "0", "0s":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	if env := f.Annotations[EnvAnnotation]; len(env) > 0 {
		usage += " [$" + env[0] + "]"
	}
	lines := Wrap(usage, width-usageColumn)
	if len(left) < usageColumn {
		fmt.Fprintf(w, "%-*s%s\n", usageColumn, left, lines[0])
		lines = lines[1:]
	} else {
		fmt.Fprintln(w, left)
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%*s%s\n", usageColumn, "", line)
	}
}

// Argument takes apart a usage that is written as "`ARG`: explanation".
func Argument(f *pflag.Flag) (arg, usage string) {
	rest, found := strings.CutPrefix(f.Usage, "`")
	if !found {
		return "", f.Usage
	}
	arg, usage, _ = strings.Cut(rest, "`: ")
	return arg, usage
}

// PlainUsages removes the names of arguments from the usages of all flags of cmd and the
// commands below it: a completion script shows a usage as it is written.
func PlainUsages(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { _, f.Usage = Argument(f) }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, c := range cmd.Commands() {
		PlainUsages(c)
	}
}

// Wrap breaks text between words, into at least one line.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Width is that of w, if it is a terminal, and else one that is easy to read.
func Width(w io.Writer) int {
	const usual, least = 100, 60
	if f, ok := w.(*os.File); ok {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(cols, least), 120)
		}
	}
	return usual
}

// NoArgs refuses arguments with a hint, where cobra has none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s takes no argument, and there is %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// AtMost refuses more than n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s takes at most %d; arguments given: %d", cmd.CommandPath(), n, len(args))
		}
		return nil
	}
}

// AtLeastOne refuses none.
func AtLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants the %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// Exactly wants these arguments.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants the %s; arguments given: %d", cmd.CommandPath(), strings.Join(names, " and "), len(args))
		}
		return nil
	}
}

// Must is for what can only fail by a mistake in the program.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}
