package runshell

// The maps below name vectors of testdata/qwen.jsonl. These topics of that collection are
// left out: readonly and sleep-guard (this tool neither recognizes harmless commands nor
// refuses to sleep), redirection-detect (coreTools do not cover redirections), sandbox and
// host-routing (other packages handle these).

const (
	superseded = "this dialect takes the text for commands where the newer ones, and this tool, take its syntax"
	otherShape = "a rendering of a result that this tool does not have: those of the documents are JSON and the block of text"
)

// disagreements are the vectors for which the answer here differs, and why.
var disagreements = map[string]string{
	"allow-016": "white space between the words of an entry does not matter, as in the older dialect",
	"allow-018": "white space around an entry does not matter, as in the older dialect (allow-017)",
	"roots-090": "[[ runs no program",

	"strip-wrapper-021": "what PowerShell is told to run is looked at, too",
	"rules-extract-012": "of a program without subcommands that very command is remembered, not all of its uses",

	"valid-009": "the directory is one below the project root, not the name of a workspace; the text is that of the dialect that has it so",

	"result-036": "what there was of output is in its own fields, not in the sentence",
	"result-041": "no exit code is made up: that of a command whose time was up is its own, or null with the signal",
	"output-011": "SIGTERM ends it; SIGKILL comes after the grace, which is 2 s by default, to what ignores that",
}

// notApplicable are vectors about features that this tool does not have, and why.
var notApplicable = map[string]string{
	"roots-015": superseded, "roots-017": superseded, "roots-027": superseded, "roots-031": superseded, "roots-033": superseded,
	"roots-047": superseded, "roots-049": superseded, "roots-055": superseded, "roots-057": superseded, "roots-059": superseded,
	"roots-069": superseded, "roots-077": superseded, "roots-091": superseded, "roots-099": superseded, "roots-101": superseded,
	"roots-134": "a path of Windows, for bash",

	"valid-010":       "in this dialect directories are absolute; in the documents they are relative",
	"valid-012":       "there is no parameter timeout in the documents: it is an unknown one, which is warned of",
	"valid-014":       "there is no parameter timeout in the documents: it is an unknown one, which is warned of",
	"description-004": "there is no parameter timeout in the documents",

	"result-030": otherShape, "result-031": otherShape, "result-032": otherShape,
	"output-001": otherShape, "output-002": otherShape, "output-004": otherShape,
	"output-012": "commands do not run on Windows; see WindowsCommandLine",
	"exec-005":   "the marker of a tool that has no profile here",

	"escape-001": "this tool quotes no arguments: a command's text goes to the shell as it is",
	"escape-004": "this tool quotes no arguments: a command's text goes to the shell as it is",
	"escape-006": "this tool quotes no arguments: a command's text goes to the shell as it is",
}
