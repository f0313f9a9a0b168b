package policy

import (
	"path"
	"strings"
)

type layerKind int

const (
	layerNone layerKind = iota
	layerArgv
	layerText
	layerRefused
)

type layer struct {
	kind   layerKind
	name   string
	inner  []Word
	more   [][]Word
	text   Word
	shell  string
	args   []Word
	clean  bool
	own    bool
	reason string
}

const maxLayers = 8

func peel(argv []Word) layer {
	switch normalizeName(argv[0].Text) {
	case "nice", "nohup", "env":
		if len(argv) > 1 {
			return layer{kind: layerArgv, name: argv[0].Text, inner: argv[1:], clean: true}
		}
	case "sh", "bash":
		if len(argv) > 2 && argv[1].Text == "-c" {
			return layer{kind: layerText, name: argv[0].Text, text: argv[2], shell: path.Base(argv[0].Text), args: argv[3:]}
		}
	}
	return layer{}
}
func inlineCode(argv []Word) (string, bool) { return "", false }
func carrier(argv []Word) (string, bool)    { return "", false }
func isShell(name string) bool              { return name == "sh" || name == "bash" }
func normalizeName(p string) string         { return strings.ToLower(path.Base(p)) }
func (b SafeBin) check(argv []Word) error   { return nil }
func scriptOperand(argv []Word) (int, bool) { return 0, false }

var safeBinProfiles = map[string]SafeBin{"head": {}}

func isInterpreter(string) bool { return false }
