package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// A source is a package without its tests, parsed and with types.
type source struct {
	Dir, ImportPath, Name string
	GoFiles               []string

	top   string // what mutants' files are named from
	fset  *token.FileSet
	files []*ast.File
	text  [][]byte
	info  types.Info
}

// load reads what go list says is built here.
func load(ctx context.Context, name string) (*source, error) {
	if !filepath.IsAbs(name) {
		name = "./" + name
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Name,GoFiles,Export", name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd, err, stderr.Bytes())
	}
	var p source
	export := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var l struct {
			source
			Export string
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		p, export[l.ImportPath] = l.source, l.Export // the last is the package itself
	}
	p.fset = token.NewFileSet()
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files, p.text = append(p.files, f), append(p.text, text)
	}
	p.info.Types = map[ast.Expr]types.TypeAndValue{}
	open := func(path string) (io.ReadCloser, error) { return os.Open(export[path]) }
	config := types.Config{Importer: importer.ForCompiler(p.fset, "gc", open)}
	_, err = config.Check(p.ImportPath, p.fset, p.files, &p.info)
	return &p, err
}
