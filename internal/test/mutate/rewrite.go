package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	_ "embed"
)

// schema has the functions that mutants call. It is compiled into the package.
//
//go:embed schema.txt
var schema string

type state int

const (
	unreached state = iota
	killed
	hung // killed by a time-out
	lived
)

// A mutant is one operator and what takes its place.
type mutant struct {
	number       int
	file         string
	line, column int
	kind, change string
	expr, source string // the text that is changed, and its line
	ignored      bool
	state        state
}

func (m *mutant) place() string { return fmt.Sprintf("%s:%d:%d", m.file, m.line, m.column) }

func (m *mutant) String() string {
	return fmt.Sprintf("%s: %s %s: %s\n\t%s", m.place(), m.kind, m.change, m.expr, m.source)
}

// An edited file is its text with insertions and replacements. Those of an outer
// expression are made before those in it, so that they nest.
type edited struct {
	*source
	file    *ast.File
	text    []byte
	open    map[int]string
	close   map[int]string
	cut     map[int]int
	seen    map[ast.Expr]bool
	mutants *[]*mutant
}

// rewrite writes the package with all its mutants to dir, and an overlay for the
// go command that has them in the place of the files.
func (p *source) rewrite(dir string) (overlay string, mutants []*mutant, err error) {
	replace := map[string]string{}
	write := func(name string, text string) error {
		path := filepath.Join(dir, name)
		replace[filepath.Join(p.Dir, name)] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	for i, f := range p.files {
		e := edited{p, f, p.text[i], map[int]string{}, map[int]string{}, map[int]int{}, map[ast.Expr]bool{}, &mutants}
		for _, d := range f.Decls {
			ast.Inspect(d, e.visit)
		}
		if err := write(p.GoFiles[i], e.String()); err != nil {
			return "", nil, err
		}
	}
	if err := write("mutant__.go", strings.Replace(schema, "package NAME", "package "+p.Name, 1)); err != nil {
		return "", nil, err
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, mutants, os.WriteFile(overlay, data, 0o600)
}

func (e *edited) at(p token.Pos) int { return e.fset.Position(p).Offset }

func (e *edited) of(n ast.Node) string { return string(e.text[e.at(n.Pos()):e.at(n.End())]) }

// add makes a mutant of what is at a position in a node, and returns its number.
func (e *edited) add(n ast.Node, at token.Pos, kind, change string) int {
	pos := e.fset.Position(at)
	file, err := filepath.Rel(e.top, filepath.Join(e.Dir, pos.Filename))
	if err != nil {
		file = pos.Filename
	}
	line := strings.Split(string(e.text), "\n")[pos.Line-1]
	m := &mutant{
		number: len(*e.mutants) + 1, file: file, line: pos.Line, column: pos.Column, kind: kind, change: change,
		expr: strings.Join(strings.Fields(e.of(n)), " "), source: strings.TrimSpace(line),
	}
	*e.mutants = append(*e.mutants, m)
	return m.number
}

// around puts text before and after a node, inside of what is there already.
func (e *edited) around(n ast.Node, before, after string) {
	e.open[e.at(n.Pos())] += before
	e.close[e.at(n.End())] = after + e.close[e.at(n.End())]
}

// replace puts text in the place of a token.
func (e *edited) replace(at token.Pos, old, new string) {
	e.open[e.at(at)] += new
	e.cut[e.at(at)] = len(old)
}

func (e *edited) String() string {
	var b strings.Builder
	for i := 0; i <= len(e.text); {
		b.WriteString(e.close[i] + e.open[i])
		if n := e.cut[i]; n > 0 {
			i += n
			continue
		}
		if i < len(e.text) {
			b.WriteByte(e.text[i])
		}
		i++
	}
	return b.String()
}

func (e *edited) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST && n.Tok != token.IMPORT
	case *ast.ArrayType:
		return false // its length is a constant
	case *ast.IfStmt:
		e.negate(n.Cond)
	case *ast.ForStmt:
		e.negate(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, cond := range c.(*ast.CaseClause).List {
					e.negate(cond)
				}
			}
		}
	case *ast.IncDecStmt:
		e.incDec(n)
	case *ast.AssignStmt:
		e.assign(n)
	case ast.Expr:
		return e.expr(n)
	}
	return true
}

// expr tells whether there may be mutants inside.
func (e *edited) expr(n ast.Expr) bool {
	if u, ok := n.(*ast.UnaryExpr); ok && u.Op == token.SUB {
		return e.minus(u)
	}
	t := e.info.Types[n]
	if t.Value != nil || t.IsType() {
		return false
	}
	switch n := n.(type) {
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			e.negate(n.X)
		}
	case *ast.BinaryExpr:
		e.binary(n)
	}
	return true
}

// others are operators and what takes their place.
var (
	boundaries  = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	negations   = map[token.Token]string{token.EQL: "!=", token.NEQ: "==", token.LSS: ">=", token.LEQ: ">", token.GTR: "<=", token.GEQ: "<"}
	arithmetic  = map[token.Token]string{token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*"}
	logical     = map[token.Token]string{token.LAND: "||", token.LOR: "&&"}
	assignments = map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}
)

func (e *edited) binary(n *ast.BinaryExpr) {
	op := n.Op.String()
	if to, ok := logical[n.Op]; ok {
		// By De Morgan, with the operands evaluated when the other operator would.
		m := fmt.Sprintf(") != mutant__(%d))", e.add(n, n.OpPos, "INVERT_LOGICAL", op+" to "+to))
		e.around(n, "((", m)
		e.around(n.X, "((", m)
		e.around(n.Y, "((", m)
		e.negate(n.X)
		e.negate(n.Y)
		return
	}
	if to, ok := negations[n.Op]; ok {
		e.around(n, "((", fmt.Sprintf(") != mutant__(%d))", e.add(n, n.OpPos, "CONDITIONALS_NEGATION", op+" to "+to)))
	}
	number := ""
	if to, ok := boundaries[n.Op]; ok {
		number = fmt.Sprint(e.add(n, n.OpPos, "CONDITIONALS_BOUNDARY", op+" to "+to))
	}
	if to, ok := arithmetic[n.Op]; ok && e.numeric(n) {
		number = fmt.Sprint(e.add(n, n.OpPos, "ARITHMETIC_BASE", op+" to "+to))
	}
	if number != "" {
		e.around(n, functions[n.Op]+"("+number+", ", ")")
		e.replace(n.OpPos, op, ", ")
	}
}

// functions of schema.txt do what the operators do.
var functions = map[token.Token]string{
	token.LSS: "mutant__less", token.LEQ: "mutant__lessEqual", token.GTR: "mutant__greater", token.GEQ: "mutant__greaterEqual",
	token.ADD: "mutant__add", token.SUB: "mutant__sub", token.MUL: "mutant__mul", token.QUO: "mutant__quo", token.REM: "mutant__rem",
}

func (e *edited) numeric(n ast.Expr) bool {
	t := e.info.Types[n].Type
	if _, generic := t.(*types.TypeParam); generic {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0 && b.Info()&types.IsComplex == 0
}

// negate makes a mutant of a condition that has no operator of its own.
func (e *edited) negate(cond ast.Expr) {
	n := ast.Unparen(cond)
	switch n := n.(type) {
	case nil, *ast.BinaryExpr:
		return
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			return // what it negates is a condition of its own
		}
	}
	t := e.info.Types[n]
	if b, ok := t.Type.(*types.Basic); !ok || b.Info()&types.IsBoolean == 0 || t.Value != nil || e.seen[n] {
		return
	}
	e.seen[n] = true
	e.around(n, "((", fmt.Sprintf(") != mutant__(%d))", e.add(n, n.Pos(), "CONDITIONALS_NEGATION", "x to !x")))
}

func (e *edited) minus(n *ast.UnaryExpr) bool {
	t := e.info.Types[n]
	before := ""
	if t.Value != nil {
		b, ok := t.Type.(*types.Basic)
		if !ok || b.Info()&types.IsUntyped != 0 {
			return false
		}
		before = b.Name()
	}
	if !e.numeric(n) {
		return false
	}
	number := e.add(n, n.OpPos, "INVERT_NEGATIVES", "- to +")
	e.around(n.X, before+"(", "))")
	e.replace(n.OpPos, "-", fmt.Sprintf("mutant__minus(%d, ", number))
	return t.Value == nil
}

func (e *edited) incDec(n *ast.IncDecStmt) {
	if calls(n.X) {
		return
	}
	op, to, assign := "++", "--", " += "
	if n.Tok == token.DEC {
		op, to, assign = "--", "++", " -= "
	}
	number := e.add(n, n.TokPos, "INCREMENT_DECREMENT", op+" to "+to)
	e.replace(n.TokPos, op, fmt.Sprintf("%smutant__sign(%d, 1, %s)", assign, number, e.of(n.X)))
}

func (e *edited) assign(n *ast.AssignStmt) {
	to, ok := assignments[n.Tok]
	if !ok || !e.numeric(n.Lhs[0]) || calls(n.Lhs[0]) {
		return
	}
	number := e.add(n, n.TokPos, "INVERT_ASSIGNMENTS", n.Tok.String()+" to "+to)
	e.around(n.Rhs[0], fmt.Sprintf("mutant__sign(%d, ", number), ", "+e.of(n.Lhs[0])+")")
}

// calls tells whether to evaluate n twice could be something else than once.
func calls(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		_, call := n.(*ast.CallExpr)
		found = found || call
		return !found
	})
	return found
}
