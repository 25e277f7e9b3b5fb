package serve

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// IsHeld reports whether this process was started by a Holder and has not called Held yet.
func IsHeld() bool {
	_, is := os.LookupEnv(holderVariable)
	return is
}

// Held returns the holder of this daemon, nil if no holder started it, and the mount that the daemon
// continues, nil if it makes a new one.
func Held() (*Keeper, *Handed, error) {
	text, ok := os.LookupEnv(holderVariable)
	if !ok {
		return nil, nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err == nil {
		err = os.Unsetenv(holderVariable) // the children of the daemon must not get it
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%s: %w", holderVariable, text, err)
	}
	l, err := linkOf(os.NewFile(uintptr(fd), "holder"))
	if err != nil {
		return nil, nil, fmt.Errorf("holder: %w", err)
	}
	word, fds, err := l.receive(wordTime, 2)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("holder: %w", err), l.Close())
	}
	k := &Keeper{link: l}
	if word == wordNone {
		return k, nil, nil
	}
	handed, err := unpack(fds)
	if err != nil {
		return nil, nil, err
	}
	if err := k.takeLog(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("holder: %w", err), handed.Close(), l.Close())
	}
	return k, handed, nil
}
