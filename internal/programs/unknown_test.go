package programs

import (
	"strings"
	"testing"
)

// Where a word that is not known may say what runs, the use is refused; where it may not,
// the command is found behind it.
func TestUnknownWords(t *testing.T) {
	for text, want := range map[string]layerKind{
		"timeout $T ls": LayerRefused, "timeout 5 $X ls": LayerRefused, "timeout x ls": LayerRefused, "timeout 5": LayerNone,
		"flock $F ls": LayerRefused, "flock /f $X": LayerRefused, "flock /f": LayerNone, "flock /f -c ls": LayerText, "flock /f -c ls x": LayerRefused, "flock /f --comm ls": LayerText,
		"nice $X ls": LayerRefused, "nice": LayerNone, "nohup $X": LayerRefused,
		"find . $X": LayerRefused, "find . -exec ls $X ;": LayerRefused, "find . -exec ls -exec rm ; ;": LayerRefused, "find . -name x": LayerNone,
		"cmd $X": LayerRefused, "cmd /s $X": LayerRefused, "cmd /c": LayerRefused, "cmd /k": LayerRefused, "cmd dir": LayerRefused, "cmd /c dir": LayerText, "cmd /k dir": LayerText, "cmd /r dir": LayerText, "cmd /cdir": LayerText,
		"powershell $X": LayerRefused, "pwsh -c $X": LayerText, "pwsh -Command ls": LayerText,
		"bash -o $X -c ls": LayerRefused, "bash -c ls": LayerText, "bash $X": LayerRefused, "bash -oc x ls": LayerRefused, "bash -$X ls": LayerRefused,
		"env $X ls": LayerRefused, "env -u $X ls": LayerRefused,
		"ls $X": LayerNone,
	} {
		if l := Peel(line(text)); l.Kind != want || want == LayerRefused && l.Reason == "" {
			t.Errorf("%s: %v, want %v: %s", text, l.Kind, want, l.Reason)
		}
	}
}

// A value that leads to a file elsewhere is not harmless, although its characters are.
func TestPlainVariableAbove(t *testing.T) {
	for pair, harmless := range map[string]bool{
		"TZ=Europe/Berlin": true, "TZ=Europe/../../etc/passwd": false, "TZ=..": false, "TZ=/x": false, "TZ=": true,
		"LANGUAGE=de:en": true, "LANGUAGE=..": false, "LANGUAGE=a..b": false,
		"LANG=C": true, "LANG=../x": false, "LC_ALL=de_DE.UTF-8": true, "LC_ALL=de_DE.SJIS": false,
		"TERM=xterm-256color": true, "TERM=x..y": false, "TERM=/x": false,
		"COLUMNS=80": true, "COLUMNS=8x": false, "PATH=/bin": false, "OTHER=1": false,
	} {
		name, value, _ := strings.Cut(pair, "=")
		if why := PlainVariable(name, value); (why == "") != harmless {
			t.Errorf("%s: %q", pair, why)
		}
	}
}
