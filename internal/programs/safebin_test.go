package programs

import (
	"slices"
	"testing"
)

// From the document of OpenClaw's exec: "`tools.exec.safeBins`: 明示的な許可リストの
// エントリなしで実行可能な、標準入力のみを受け付ける安全なバイナリ。" - safe programs that take
// standard input alone, and run without an entry in the list.
func TestSafeBinCheck(t *testing.T) {
	for in, ok := range map[string]bool{
		"head": true, "head -5": true, "head -n 5": true, "head -n5": true, "head -n -5": true, "head --lines=5": true, "head --li 5": true, "head -qn 5": true, "head -": true, "head -- -": true,
		"head x": false, "head -n 5 x": false, "head -n": false, "head -5x": false, "head -- x": false, "head /etc/passwd": false, "head $x": false, "head -n $x": false, "head --lin": false, "head -n /etc/passwd": false, "head -n/x": false, "head --lines=/x": false, "head --frob": false, "head --quiet=x": false, "head - x": false,
		"tail -n +5": true, "tail -20": true, "tail -f": false, "tail -nf": true, "tail -qf": false, "tail -F": false, "tail --follow": false, "tail --fol=name": false, "tail --retry": false, "tail --ret": false,
		"wc -l": true, "wc -lwc": true, "wc --lines": true, "wc --total=never": true, "wc": true, "wc x": false, "wc --files0-from=x": false, "wc --files0-from x": false, "wc --files": false, "wc -l -": true,
		"tr a b": true, "tr -d x": true, "tr -cd a-z": true, "tr -s ' '": true, `tr '\n' ,`: true, "tr": false, "tr a b c": false, "tr -d '*'": false, "tr / _": false, "tr -x a": false, "tr - _": true, "tr -d": false,
		"cut -d, -f1": true, "cut -d , -f 1,2": true, "cut -sf1": true, "cut --complement -c 1-3": true, "cut --comp -c 1": true, "cut -f1 x": false, "cut -d / -f 1": false, "cut -d ~ -f 1": false,
		"uniq -c": true, "uniq -cd": true, "uniq --group": true, "uniq --group=both": true, "uniq --group x": false, "uniq -f 1": true, "uniq x": false, "uniq - x": false, "uniq -D": true,
		"sort -rn": true, "sort -k1,1n -t,": true, "sort -o x": false, "sort -ro x": false, "sort -ox": false, "sort --output=x": false, "sort --out=x": false, "sort -T x": false, "sort --compress-program=x": false, "sort --co x": false, "sort --f=1": false, "sort --check": true, "sort -c x": false, "sort -S ./x": false, `sort -S C:\x`: false,
		"grep -e x": true, "grep -ie x": true, "grep -vE -e x": true, "grep -5 -e x": true, "grep x": false, "grep -r -e x": false, "grep -ire x": false, "grep -f x": false, "grep -e x y": false, "grep -e /x": false, "grep -e 'x*'": false, "grep -d recurse -e x": false, "grep --dir=recurse -e x": false, "grep --exclude-dir=x -e y": false, "grep -e . -e ..": false,
	} {
		argv := line(in)
		err := SafeBinProfiles[argv[0].Text].Check(argv)
		if (err == nil) != ok {
			t.Errorf("check(%s) = %v", in, err)
		}
	}
	wide := SafeBin{MaxPositional: 9, Flags: []string{"-e", "-n"}, ValueFlags: []string{"--frob"}}
	for in, ok := range map[string]bool{
		"mine -n a b": true, "mine --frob x": true, "mine --frob=x": true, "mine --fr x": true, "mine --frob": false, "mine -x": false,
		// A program that runs code is not safe under any profile.
		"sed -n p": false, "gsed p": false, "awk p": false, "/opt/x/gawk p": false, `C:\Tools\mawk.exe p`: false, "jq .": false, "python3 x": false, "perl -e x": false, "bash x": false, "sh x": false, "xargs x": false, "find x": false, "env x": false, "busybox x": false, "node -e x": false,
	} {
		if err := wide.Check(line(in)); (err == nil) != ok {
			t.Errorf("check(%s) = %v", in, err)
		}
	}
	if err := (SafeBin{}).Check(line("$x y")); err == nil {
		t.Error("a program that is not known is safe")
	}
}

func TestSafeBinDeniedFlagsWin(t *testing.T) {
	b := SafeBin{Flags: []string{"-x", "--long"}, ValueFlags: []string{"-v"}, DeniedFlags: []string{"-x", "--long", "-v"}}
	for _, in := range []string{"mine -x", "mine --long", "mine --lo", "mine -v y", "mine -vy"} {
		if b.Check(line(in)) == nil {
			t.Errorf("check(%s) is nil", in)
		}
	}
}

func TestSafeBinProfileMistakes(t *testing.T) {
	for _, flag := range []string{"", "-", "--", "n", "-n=", "-a,b", "-n:", "--x y"} {
		if (SafeBin{Flags: []string{flag}}).Check(line("mine")) == nil {
			t.Errorf("a profile with the flag %q is taken", flag)
		}
	}
}

func TestDefaultSafeBins(t *testing.T) {
	// "stdin-only filters that need no entry (cut uniq head tail tr wc by default)"
	if want := []string{"cut", "uniq", "head", "tail", "tr", "wc"}; !slices.Equal(DefaultSafeBins, want) {
		t.Errorf("%q, want %q", DefaultSafeBins, want)
	}
	for _, name := range DefaultSafeBins {
		if _, ok := SafeBinProfiles[name]; !ok {
			t.Errorf("%s has no profile", name)
		}
	}
	for name := range SafeBinProfiles {
		if IsInterpreter(name) {
			t.Errorf("%s has a profile, and is never safe", name)
		}
	}
}
