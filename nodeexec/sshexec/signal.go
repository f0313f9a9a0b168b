package sshexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
)

// askTime bounds a query of a host.
const askTime = 30 * time.Second

// ask runs a script on the host, which prints its answer between the marks.
func (h *host) ask(ctx context.Context, script func(m marks) string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, ch, requests, err := h.open(ctx, true)
	if err != nil {
		return "", err
	}
	defer h.all.owned.Done()
	end := h.discard(c, ch, requests)
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	h.all.owned.Go(func() { _, _ = io.Copy(io.Discard, ch.Stderr()) }) // ends with the channel
	m := newMarks()
	_, err = within(ctx, h, func() (struct{}, error) {
		ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{bootstrap}))
		if err == nil && !ok {
			err = errors.New("it executes no commands")
		}
		if err == nil {
			_, err = io.WriteString(ch, "eval "+quote(script(m))+"\n")
		}
		return struct{}{}, err
	})
	if err != nil {
		if ctx.Err() != nil { // which has closed the channel
			err = ctx.Err()
		}
		return "", corral.Errorf(corral.ErrUnavailable, "", "cannot ask %s: %w", h.node(), err)
	}
	_ = ch.CloseWrite() // if the connection is gone, no answer comes
	reply, err := within(ctx, h, func() (reply, error) { return readReply(ctx, ch, m) })
	if err != nil {
		return "", corral.Errorf(corral.ErrLost, "", "%s does not answer: %w; it says %s", h.node(), err, firstLine(reply.seen))
	}
	return reply.answer, nil
}

// reply is what a host prints: the answer between the marks, or all that there is without
// one.
type reply struct {
	answer string
	seen   []byte
}

func readReply(ctx context.Context, from io.Reader, m marks) (reply, error) {
	out := preamble{marks: m}
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		answer, _, done, perr := out.add(buf[:n])
		switch {
		case done:
			return reply{answer: answer}, nil
		case ctx.Err() != nil:
			err = ctx.Err()
		case perr != nil:
			err = perr
		}
		if err != nil {
			return reply{seen: out.seen}, err
		}
	}
}

// lastWord is how long a server has to close a session that is given up, so that what it
// said can be told.
const lastWord = time.Second

// within does something that only the server or the end of the connection ends. It does not
// wait for it much longer than ctx.
func within[T any](ctx context.Context, h *host, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	h.all.owned.Go(func() {
		v, err := do()
		done <- result{v, err}
	})
	var late <-chan time.Time
	for over := ctx.Done(); ; {
		select {
		case r := <-done:
			return r.value, r.err
		case <-over:
			over, late = nil, time.After(lastWord)
		case <-late:
			var none T
			return none, ctx.Err()
		}
	}
}

// paths are the PATH of a session, and of a login shell.
type paths struct{ session, login string }

// ownPaths asks the host for its paths, once.
func (h *host) ownPaths(ctx context.Context) (paths, error) {
	h.mu.Lock()
	known := h.paths
	h.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	answer, err := h.ask(ctx, func(m marks) string {
		return "corral_p=$(/bin/sh -lc 'printf %s \"/$PATH\"' </dev/null)\n" + m.printf(`"$PATH"`, `'
'`, `"${corral_p##*
}"`)
	})
	if err != nil {
		return paths{}, err
	}
	session, login, ok := strings.Cut(answer, "\n")
	if !ok || strings.Contains(login, "\n") {
		return paths{}, corral.Errorf(corral.ErrUnavailable, "leave PATH out of env", "cannot find out the PATH of %s: it says %.100q", h.node(), answer)
	}
	p := paths{session, strings.TrimPrefix(login, "/")}
	h.mu.Lock()
	h.paths = &p
	h.mu.Unlock()
	return p, nil
}

// killScript finds the processes of a command and sends them a signal. On Linux these
// are the processes with the variable in their environment, those in the session and
// the group of the command itself while it runs, and the descendants of both. On other
// systems the variable cannot be read. The script prints how many processes it found,
// how many it signalled, and the error of kill for another.
//
// $1 is the variable with its value, $2 the PID of the command or 0, $3 the signal, and
// $4 the number of rounds: a signal that ends processes is sent until none is left. The
// command comes first, before its shell can react to the end of the others.
const killScript = `
members() {
	marked=
	if [ -r /proc/self/stat ]; then
		marked=$(grep -lsF -e "$1" /proc/[0-9]*/environ | sed 's,^/proc/,,; s,/.*,,' | tr '\n' ' ')
	fi
	if [ -r /proc/self/stat ]; then
		cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^\([0-9]*\) (.*) /\1 /'
	else
		ps -A -o pid= -o stat= -o ppid= -o pgid= -o pgid=
	fi | awk -v leader="$2" -v marked="$marked" '
		$2 !~ /^Z/ {
			parent[$1] = $3
			if (leader + 0 && ($1 == leader || $4 == leader || $5 == leader)) member[$1] = 1
		}
		END {
			n = split(marked, list, " ")
			for (i = 1; i <= n; i++) if (list[i] in parent) member[list[i]] = 1
			do {
				more = 0
				for (p in parent) if (!(p in member) && (parent[p] in member)) { member[p] = 1; more = 1 }
			} while (more)
			for (p in member) if (p + 0 > 1) print (p == leader ? 0 : 1), p
		}' | sort -n -k 1 -k 2 | while read -r rank p; do echo "$p"; done
}
found=0 sent=0 said= left= round=0
while [ $round -lt $4 ]; do
	list=$(members "$1" "$2")
	[ -n "$list" ] || break
	for p in $list; do
		found=$((found + 1))
		if corral_m=$(kill -s "$3" "$p" 2>&1); then sent=$((sent + 1)); else said=$corral_m; fi
	done
	round=$((round + 1))
done
if [ $4 -gt 1 ]; then left=$(members "$1" "$2" | tr '\n' ','); fi
`

// killRounds bounds the rounds of SIGKILL against processes that keep starting others.
const killRounds = 50

// kill signals the processes of a command; running reports whether the command itself
// runs. It returns their number.
func (h *host) kill(ctx context.Context, info corral.Info, sig corral.Signal, running bool) (int, error) {
	pid, rounds := 0, 1
	if running {
		pid = info.PID
	}
	if sig == corral.SIGKILL {
		rounds = killRounds
	}
	name := strings.TrimPrefix(sig.String(), "SIG")
	answer, err := h.ask(ctx, func(m marks) string {
		args := []string{processVariable + "=" + token(info), strconv.Itoa(pid), name, strconv.Itoa(rounds)}
		for i := range args {
			args[i] = quote(args[i])
		}
		return "set -- " + strings.Join(args, " ") + killScript + m.printf(`"$found" " " "$sent" " " "$left" " " "$said"`)
	})
	if err != nil {
		return 0, err
	}
	fields := strings.SplitN(answer, " ", 4)
	if len(fields) < 4 {
		return 0, corral.Errorf(corral.ErrLost, "", "cannot tell whether %v was sent to %s on %s: it says %.100q", sig, info.ID, h.node(), answer)
	}
	found, err1 := strconv.Atoi(fields[0])
	sent, err2 := strconv.Atoi(fields[1])
	switch {
	case err1 != nil || err2 != nil:
		return 0, corral.Errorf(corral.ErrLost, "", "cannot tell whether %v was sent to %s on %s: it says %.100q", sig, info.ID, h.node(), answer)
	case fields[2] != "":
		return found, fmt.Errorf("cannot end process %s on %s: still there are %s (%s)", info.ID, h.node(), strings.TrimSuffix(fields[2], ","), firstLine([]byte(fields[3])))
	case found > 0 && sent == 0:
		return 0, fmt.Errorf("cannot send %v to %s on %s: %s", sig, info.ID, h.node(), firstLine([]byte(fields[3])))
	}
	return found, nil
}

// signal is streamexec.Options.Signal.
func (all *Hosts) signal(ctx context.Context, info corral.Info, sig corral.Signal, running, _ bool) error {
	if sig > 31 {
		return corral.Errorf(errors.ErrUnsupported, "use one that has a name", "cannot send %v to %s: real-time signals have no names that every system knows", sig, info.ID)
	}
	// Also on a host that is not allowed any more.
	h, err := all.known(strings.TrimPrefix(info.Node, Prefix))
	if err != nil {
		return err
	}
	found, err := h.kill(ctx, info, sig, running)
	if err == nil && found == 0 {
		err = corral.Errorf(corral.ErrEnded, "", "process %s has ended", info.ID)
	}
	return err
}
