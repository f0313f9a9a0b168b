package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/programs"
)

// maxText bounds what is parsed, in bytes. It is the longest argument that
// Linux takes (MAX_ARG_STRLEN), so no longer text ever reaches a shell.
const maxText = 128 << 10

// maxNesting bounds parentheses, braces and substitutions in each other, and
// with them the depth of a parser that calls itself.
const maxNesting = 64

// A script is shell text as one kind of shell reads it.
type script struct {
	text     string
	depth    int // how many texts of shells it is nested in
	file     *syntax.File
	calls    []*call
	findings []Finding
	quotes   bool                    // the text has a quote, a backquote or a backslash
	literals bool                    // some word has a quoted substitution, which a second evaluation would carry out
	assigned map[*syntax.Assign]bool // assignments that have a finding already
	sets     []string                // variables that it sets, computed on first use
}

// A call is a simple command.
type call struct {
	expr   *syntax.CallExpr // nil for a command that no shell reads
	words  []Word
	text   string
	offset int
	depth  int
	moved  bool // behind a cd: the working directory is not known

	segments []*Segment
	inner    []textOf
	// unknown says why the programs that it runs are not known.
	unknown string
}

// A textOf is the text that a call hands to another shell.
type textOf struct {
	at      int // the number of the call's word, from 1; 0 if it is made of several
	scripts []*script
}

// dialects are the languages in which a shell might read the text. The program sh is
// bash on some machines and dash on others; the text has to mean the same to all.
func dialects(shell, text string) []syntax.LangVariant {
	if shell == "bash" || plainText(text) {
		return []syntax.LangVariant{syntax.LangBash}
	}
	return []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX}
}

// plainText reports whether the text has only words, quotes, pipes and lists. All
// shells read these alike, so parsing once is enough.
func plainText(text string) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(" _./:,+@%'\"|;-", c) >= 0:
		default:
			return false
		}
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '|' || r == ';' }) {
		switch word {
		case "function", "select", "time", "coproc", "let", "declare", "local", "typeset", "nameref", "export", "readonly":
			return false
		}
	}
	return true
}

// parse reads text as a shell of that dialect would.
func parse(text string, lang syntax.LangVariant, depth int) *script {
	s := &script{text: text, depth: depth, quotes: strings.ContainsAny(text, "'`\\"), assigned: map[*syntax.Assign]bool{}}
	if at, why := unreadable(text); why != "" {
		s.find(Finding{Kind: Syntax, Offset: at, Reason: why, unknown: true})
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil {
		at := 0
		if e, ok := err.(syntax.ParseError); ok {
			at = int(e.Pos.Offset())
			err = parseError(e.Text)
		} else if e, ok := err.(syntax.LangError); ok {
			at = int(e.Pos.Offset())
		}
		s.find(Finding{Kind: Syntax, Offset: at, Reason: "cannot be parsed: " + strings.TrimPrefix(err.Error(), ":"), unknown: true})
		return s
	}
	s.file = file
	s.list(file.Stmts)
	syntax.Walk(file, s.visit)
	slices.SortStableFunc(s.calls, func(a, b *call) int { return cmp.Compare(a.offset, b.offset) })
	for i, c := range s.calls {
		if i > 0 {
			c.moved = s.calls[i-1].moved || changesDirectory(s.calls[i-1].words)
		}
	}
	return s
}

type parseError string

func (e parseError) Error() string { return string(e) }

// unreadable finds characters that shells and terminals do not read alike, and text
// that is too large to parse.
func unreadable(text string) (at int, why string) {
	if len(text) > maxText {
		return maxText, "is longer than 128 KiB, which nothing can run"
	}
	if strings.Count(text, "coproc") > maxNesting { // the parser's time grows with their square
		return 0, "has too many coprocesses"
	}
	nesting := 0
	for i, r := range text {
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i, "has a byte that is not UTF-8"
			}
		case r == '\r':
			return i, "has a carriage return, which a shell takes for part of a word"
		case unicode.IsControl(r) && r != '\n' && r != '\t':
			return i, "has a control character"
		case r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)):
			return i, "has a character that looks like a space or like nothing, and is part of a word"
		case r == '(' || r == '{': // nested backticks need twice the backslashes at each level, so maxText bounds them
			nesting++
		case r == ')' || r == '}':
			nesting = max(nesting-1, 0)
		}
		if nesting > maxNesting*4 {
			return i, "is nested too deeply"
		}
	}
	return 0, ""
}

// maxFindings is the most findings in a text, and maxFound the longest text of one, in
// bytes. Findings can be nested, and the text of each is shown.
const (
	maxFindings = 1000
	maxFound    = 1 << 10
)

func (s *script) find(f Finding) {
	switch n := len(s.findings); {
	case n > maxFindings:
		return
	case n == maxFindings:
		f = Finding{Kind: Syntax, Offset: -1, Reason: fmt.Sprintf("has more than %d things that allowlist mode refuses", maxFindings), unknown: true}
	case len(f.Text) > maxFound:
		f.Text = strings.ToValidUTF8(f.Text[:maxFound], "")
	}
	if s.depth > 0 {
		f.Offset = -1
	}
	s.findings = append(s.findings, f)
}

// at is a finding about a node.
func (s *script) at(kind Kind, n syntax.Node, reason string) Finding {
	return Finding{Kind: kind, Text: s.source(n), Offset: int(n.Pos().Offset()), Reason: reason}
}

func (s *script) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(s.text) {
		return ""
	}
	return s.text[from:to]
}

// list finds chaining among statements that follow each other.
func (s *script) list(stmts []*syntax.Stmt) {
	for i, st := range stmts {
		if i > 0 {
			f := s.at(Chaining, st, "follows another command")
			f.option = optionChaining
			s.find(f)
		}
	}
}

// visit is called for every node. It refuses nodes that it does not know.
func (s *script) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case nil, *syntax.File, *syntax.Word, *syntax.CaseItem, *syntax.TimeClause,
		*syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.BinaryTest, *syntax.UnaryTest, *syntax.ParenTest,
		*syntax.ArrayExpr, *syntax.ArrayElem, *syntax.CStyleLoop:
	case *syntax.WordIter:
		if steers(n.Name.Value) {
			f := s.at(Assignment, n, "changes "+n.Name.Value+", and with it which programs run")
			f.unknown = true
			s.find(f)
		}
	case *syntax.Lit:
		s.continued(n)
	case *syntax.Comment:
		// For the parser a backslash continues a comment on the next line; for a shell
		// it does not.
		if strings.Contains(s.source(n), "\\\n") {
			f := s.at(Syntax, n, "is a comment that ends in a backslash")
			f.unknown = true
			s.find(f)
		}
	case *syntax.SglQuoted:
		s.literals = s.literals || strings.Contains(n.Value, "$(") || strings.Contains(n.Value, "`") || n.Dollar
	case *syntax.DblQuoted:
		if n.Dollar { // bash expands what the translation says
			f := s.at(Substitution, n, "substitutes a translation, and the output of commands in it")
			f.unknown = true
			s.find(f)
		}
		s.apostrophes(n.Parts)
		s.literals = s.literals || strings.Contains(s.source(n), `\$(`) || strings.Contains(s.source(n), "\\`")
	case *syntax.Stmt:
		s.stmt(n)
	case *syntax.CallExpr:
		s.call(n)
	case *syntax.BinaryCmd:
		switch n.Op {
		case syntax.AndStmt, syntax.OrStmt:
			f := s.at(Chaining, n, "chains commands with "+n.Op.String())
			f.Offset, f.Text, f.option = int(n.OpPos.Offset()), n.Op.String(), optionChaining
			s.find(f)
		case syntax.Pipe:
		case syntax.PipeAll:
			f := s.at(Redirection, n, "redirects standard error into the pipe")
			f.Offset, f.Text, f.option = int(n.OpPos.Offset()), n.Op.String(), optionRedirections
			s.find(f)
		default:
			s.find(s.at(Compound, n, "joins commands with "+n.Op.String()))
		}
	case *syntax.Redirect:
		s.redirect(n)
	case *syntax.CmdSubst, *syntax.ProcSubst:
		s.find(s.at(Substitution, n, "substitutes the output of a command"))
	case *syntax.ParamExp:
		s.param(n)
	case *syntax.ArithmExp:
		if n.Bracket { // $[1|2] is two commands to shells that do not know it
			f := s.at(Expansion, n, "is arithmetic to bash alone")
			f.unknown = true
			s.find(f)
		}
		s.arithmetic(n, n.X)
	case *syntax.Assign:
		s.assign(n)
	case *syntax.ExtGlob:
		s.find(s.at(Expansion, n, "is a pattern that only some shells know"))
	case *syntax.ArithmCmd:
		s.find(s.at(Compound, n, "is arithmetic"))
		s.arithmetic(n, n.X)
	case *syntax.LetClause:
		f := s.at(Compound, n, "is arithmetic")
		f.unknown = s.substitutes(n) || s.foreign(n)
		s.find(f)
	case *syntax.TestClause:
		f := s.at(Compound, n, "is a test that can evaluate what variables hold")
		f.unknown = s.substitutes(n) || s.evaluates(n)
		s.find(f)
	case *syntax.Subshell:
		s.list(n.Stmts)
		s.find(s.at(Compound, n, "is a subshell"))
	case *syntax.Block:
		s.list(n.Stmts)
		s.find(s.at(Compound, n, "is a group"))
	case *syntax.DeclClause:
		f := s.at(Compound, n, "declares variables")
		f.unknown = s.substitutes(n)
		if f.sets = s.exported(n); f.sets != nil {
			f.Kind, f.Reason = Assignment, "sets variables"
			for _, a := range n.Args {
				s.assigned[a] = true
			}
		}
		s.find(f)
	case *syntax.FuncDecl:
		s.find(s.at(Compound, n, "defines a function"))
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.CoprocClause:
		s.find(s.at(Compound, n, "is control flow"))
	default:
		f := s.at(Compound, n, "is something that cannot be told")
		f.unknown = true
		s.find(f)
	}
	return true
}

func (s *script) stmt(n *syntax.Stmt) {
	if n.Background {
		f := s.at(Background, n, "runs in the background")
		f.option = optionChaining
		s.find(f)
	}
	if n.Coprocess || n.Disown {
		s.find(s.at(Compound, n, "runs beside the command"))
	}
	if n.Negated {
		f := s.at(Compound, n, "negates the exit code")
		f.option = optionChaining
		s.find(f)
	}
}

// redirect tells harmless redirections from others.
func (s *script) redirect(n *syntax.Redirect) {
	f := s.at(Redirection, n, "redirects input or output")
	target := s.word(n.Word)
	plain := n.N == nil || n.N.Value == "0" || n.N.Value == "1" || n.N.Value == "2"
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		// The shell joins such lines before it looks for the delimiter.
		if n.Hdoc != nil && !strings.ContainsAny(s.source(n.Word), `'"\`) && strings.Contains(s.source(n.Hdoc), "\\\n") {
			f.Reason, f.unknown = "is a here-document with a line that continues on the next", true
			break
		}
		before := s.text
		if n.Hdoc != nil {
			s.apostrophes(n.Hdoc.Parts)
			before = s.text[:n.Hdoc.Pos().Offset()]
		}
		if n.Op != syntax.WordHdoc && strings.Contains(before, "\\\n") {
			f.Reason = "is a here-document of a line that continues on the next" // the printer puts that into the document
			break
		}
		if plain { // a substitution in it is a finding of its own
			f.option = optionRedirections
		}
	case syntax.DplIn, syntax.DplOut:
		if plain && target.Static && (target.Text == "1" || target.Text == "2" || target.Text == "-") {
			f.option = optionRedirections
		}
		// Bash expands the word behind >& and 1>& a second time if it is no number.
		again := n.Op == syntax.DplOut && (n.N == nil || n.N.Value == "1")
		f.unknown = again && (target.Static && strings.ContainsAny(target.Text, "$`") || !target.Static && (s.quotes || s.foreign(n.Word)))
	default:
		if plain && target.Static && target.Text == "/dev/null" {
			f.option = optionRedirections
		}
	}
	s.find(f)
}

// param refuses expansions that evaluate what a variable holds, or set it.
func (s *script) param(n *syntax.ParamExp) {
	why := ""
	switch {
	case n.Excl || n.Names != 0:
		why = "expands a variable that another one names"
	case n.Slice != nil:
		why = "evaluates arithmetic"
	case n.Index != nil && !constant(n.Index):
		why = "evaluates arithmetic"
	case n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull):
		why = "sets a variable"
	case n.Exp != nil && n.Exp.Op == syntax.OtherParamOps:
		why = "can evaluate what the variable holds"
	case n.Width || n.IsSet || n.Flags != nil || n.NestedParam != nil || len(n.Modifiers) > 0 || n.Param == nil:
		why = "is an expansion of other shells"
	}
	if why != "" {
		f := s.at(Expansion, n, why)
		f.unknown = n.Exp != nil && n.Exp.Op == syntax.OtherParamOps || s.literals || strings.Contains(s.text, "'") || s.foreign(n) ||
			n.Param != nil && why == "sets a variable" && steers(n.Param.Value)
		s.find(f)
	}
}

// arithmetic refuses expressions that have more than numbers. Bash runs commands in
// the subscript of an array, even if the subscript is the value of a variable.
func (s *script) arithmetic(n syntax.Node, x syntax.ArithmExpr) {
	if !constant(x) {
		f := s.at(Expansion, n, "evaluates variables as arithmetic")
		f.unknown = s.quotes || s.substitutes(x) || s.foreign(x)
		s.find(f)
	}
}

// substitutes reports whether there is a substitution in the node.
func (s *script) substitutes(n syntax.Node) bool {
	return strings.Contains(s.source(n), "$(") || strings.Contains(s.source(n), "`")
}

// evaluates reports whether a test evaluates variables that the text does not set: as
// numbers, or as the name of a variable.
func (s *script) evaluates(n *syntax.TestClause) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				found = found || s.foreign(n)
			}
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
				w, ok := n.X.(*syntax.Word)
				found = found || !ok || !s.word(w).Static
			}
		}
		return true
	})
	return found
}

// assign refuses assignments; one that steers hides what runs.
func (s *script) assign(n *syntax.Assign) {
	if s.assigned[n] { // call or visit has the finding
		return
	}
	f := s.at(Assignment, n, "sets a variable")
	switch {
	case n.Name == nil: // export "$X"
		f.unknown = n.Value != nil && !s.word(n.Value).Static
	case steers(n.Name.Value) && !n.Naked:
		f.Reason, f.unknown = "sets "+n.Name.Value+", which can change what runs", true
	case n.Index != nil && !constant(n.Index):
		f.unknown = s.substitutes(n) || s.foreign(n.Index)
	}
	s.find(f)
}

// plainAssign is the variable that an assignment sets and its value; ok is false if
// the assignment does more, or steers.
func (s *script) plainAssign(n *syntax.Assign) (name string, value Word, ok bool) {
	if n.Name == nil || n.Naked || n.Append || n.Index != nil || n.Array != nil || steers(n.Name.Value) {
		return "", Word{}, false
	}
	if n.Value == nil {
		return n.Name.Value, programs.Literal(""), true
	}
	return n.Name.Value, s.word(n.Value), true
}

// exported are the settings of export NAME=VALUE…; they are for all commands that
// follow. Nil for any other declaration.
func (s *script) exported(n *syntax.DeclClause) []programs.Setting {
	var sets []programs.Setting
	for _, a := range n.Args {
		name, value, ok := s.plainAssign(a)
		if !ok || n.Variant.Value != "export" {
			return nil
		}
		sets = append(sets, programs.Setting{Name: name, Value: value})
	}
	return sets
}

// constant reports whether an expression is made of numbers alone, or is the
// @ or * of an array.
func constant(x syntax.ArithmExpr) bool {
	ok := true
	if x == nil {
		return true
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.Word:
		case *syntax.Lit:
			ok = ok && (n.Value == "@" || n.Value == "*" || strings.Trim(n.Value, "0123456789") == "")
		default:
			ok = false
		}
		return true
	})
	return ok
}

func (s *script) call(n *syntax.CallExpr) {
	for _, a := range n.Assigns {
		if name, value, ok := s.plainAssign(a); ok && len(n.Args) > 0 {
			f := s.at(Assignment, a, "sets a variable")
			f.sets = []programs.Setting{{Name: name, Value: value, Expr: n}}
			s.find(f)
			s.assigned[a] = true
		}
	}
	if len(n.Args) == 0 {
		return // assignments, which are findings
	}
	c := &call{expr: n, depth: s.depth, text: s.joined(n), offset: int(n.Pos().Offset())}
	for i, a := range n.Args {
		w := s.word(a)
		w.At = i + 1
		c.words = append(c.words, w)
	}
	if c.words[0].Text == "--" {
		c.unknown = "after time it stands for nothing" // and the program is the next word
	}
	s.calls = append(s.calls, c)
}

// changesDirectory reports whether commands behind these words may run in another
// directory.
func changesDirectory(words []Word) bool {
	switch words[0].Text {
	case "cd", "pushd", "popd":
		return true
	}
	// A program that is not known may be cd, unless its name is sure to have a slash.
	w := words[0]
	return !w.Static && !strings.Contains(w.Prefix, "/") && !strings.HasPrefix(w.Text, "~/")
}
