package runshell

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool"
)

// Input is the input of a call. In JSON, IsBackground is required in profile qwen, and
// does not exist in profile asimi.
type Input struct {
	Command      string `json:"command"`
	Description  string `json:"description,omitempty"`
	Directory    string `json:"directory,omitempty"`
	IsBackground bool   `json:"is_background"`
}

// The arguments in each profile. Their descriptions are in the schema.
type asimiArguments struct {
	Command     string `json:"command" jsonschema:"Exact shell command to run. It may have pipes, redirections and chains (&&, ||, ;)."`
	Description string `json:"description,omitempty" jsonschema:"Brief description of what the command is for, which is shown to the user. One sentence, without line breaks."`
	Directory   string `json:"directory,omitempty" jsonschema:"Directory to run the command in, relative to the project root, which is the default. Absolute paths are not permitted."`
}

type qwenArguments struct {
	Command      string `json:"command" jsonschema:"Exact shell command to run. It may have pipes, redirections and chains (&&, ||, ;)."`
	Description  string `json:"description,omitempty" jsonschema:"Brief description of what the command is for, which is shown to the user. One sentence, without line breaks."`
	Directory    string `json:"directory,omitempty" jsonschema:"Directory to run the command in, relative to the project root, which is the default. Absolute paths are not permitted."`
	IsBackground *bool  `json:"is_background" jsonschema:"Whether to run the command in the background. True for what runs until it is stopped, such as development servers, watchers and daemons; false for commands that end, such as builds, installs, tests and git."`
}

// Parse reads the arguments of a call as Call does. The warnings are for the
// result.
func (t *Tool) Parse(arguments json.RawMessage) (in Input, warnings []string, err error) {
	if t.cfg.Profile == pathenv.ProfileAsimi {
		var a asimiArguments
		if warnings, err = tool.Decode(arguments, &a); err != nil {
			return Input{}, nil, invalid(err)
		}
		return Input{Command: a.Command, Description: a.Description, Directory: a.Directory}, warnings, nil
	}
	var a qwenArguments
	if warnings, err = tool.Decode(arguments, &a); err != nil {
		return Input{}, nil, invalid(err)
	}
	in = Input{Command: a.Command, Description: a.Description, Directory: a.Directory}
	if a.IsBackground == nil {
		return in, warnings, invalid(corral.Errorf(corral.ErrInvalid,
			"give true for what runs until it is stopped, false for what ends by itself", "is_background is required"))
	}
	in.IsBackground = *a.IsBackground
	return in, warnings, nil
}

// Display is the command for people: "npm run dev [in web] [background] (Start
// the server)".
func (in Input) Display() string {
	var b strings.Builder
	b.WriteString(in.Command)
	if in.Directory != "" {
		b.WriteString(" [in " + in.Directory + "]")
	}
	if in.IsBackground {
		b.WriteString(" " + inBackground)
	}
	if d := in.oneLine(); d != "" {
		b.WriteString(" (" + d + ")")
	}
	return b.String()
}

const inBackground = "[background]"

// oneLine is the description on one line.
func (in Input) oneLine() string {
	return strings.Join(strings.FieldsFunc(in.Description, isBreak), " ")
}

// About is the description of the command: "[background] Start the server".
func (in Input) About() string {
	about := in.oneLine()
	if in.IsBackground {
		about = strings.TrimSpace(inBackground + " " + about)
	}
	if len(about) > corral.MaxDescription {
		about = strings.ToValidUTF8(about[:corral.MaxDescription], "")
	}
	return about
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// validate checks the input and returns the directory to run in, as a path for the
// executor.
func (t *Tool) validate(in Input) (dir string, err error) {
	if strings.TrimSpace(in.Command) == "" {
		return "", corral.Errorf(corral.ErrInvalid, "give the command to run", "Command cannot be empty.")
	}
	d := in.Directory
	if path.IsAbs(d) || filepath.IsAbs(d) {
		return "", corral.Errorf(corral.ErrDir, "leave it out for the project root", "Directory cannot be absolute. Must be relative to the project root directory.")
	}
	if d == "" {
		return t.cfg.Dir, nil
	}
	outside := corral.Errorf(corral.ErrDir, "use a directory below it", "Directory must be inside the project root directory.")
	if !filepath.IsLocal(d) {
		return "", outside
	}
	if t.cfg.Root != "" {
		root, err := os.OpenRoot(t.cfg.Root)
		if err != nil {
			return "", corral.Errorf(corral.ErrDir, "", "cannot open the project root: %w", err)
		}
		defer root.Close()
		info, err := root.Stat(d)
		_, anywhere := os.Stat(filepath.Join(t.cfg.Root, d))
		switch {
		case err == nil && info.IsDir():
		case err != nil && anywhere == nil: // behind a symbolic link that leads out
			return "", outside
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return "", corral.Errorf(corral.ErrDir, "list the directories there are", "Directory must exist.")
		default:
			return "", corral.Errorf(corral.ErrDir, "", "cannot look at the directory: %w", err)
		}
	}
	return path.Join(t.cfg.Dir, filepath.ToSlash(d)), nil
}
