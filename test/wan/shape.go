package wan

import (
	"errors"
	"fmt"
)

// Shape changes the links from some hosts to others, in this direction only. The names are those of hosts or
// regions; no names mean all hosts except the Controller. The same region in from and to means the links
// inside it. On an error nothing changes: for an unknown name, an invalid link, or a failed router.
func (l *Lab) Shape(from, to []string, change func(*Link)) error {
	sources, err := l.named(from)
	if err != nil {
		return err
	}
	targets, err := l.named(to)
	if err != nil {
		return err
	}
	return l.reshape(func(p *path) (Link, bool) {
		link := p.Link
		if !sources[p.from] || !targets[p.to] {
			return link, false
		}
		change(&link)
		return link, true
	})
}

// Cut takes down all links between the named hosts or regions and all others except the Controller, in both
// directions. The links between the named hosts stay up.
func (l *Lab) Cut(names ...string) error {
	return l.between(names, func(p *path) (Link, bool) {
		link := p.Link
		link.Down = true
		return link, p.from != 0 && p.to != 0
	})
}

// Heal restores the links between the named hosts or regions and all others, in both directions, to their
// state after New. Without names it restores all links.
func (l *Lab) Heal(names ...string) error {
	normal := func(p *path) (Link, bool) { return p.normal, true }
	if len(names) == 0 {
		return l.reshape(normal)
	}
	return l.between(names, normal)
}

// between changes the links between the named hosts and all others.
func (l *Lab) between(names []string, change func(*path) (Link, bool)) error {
	if len(names) == 0 {
		return errors.New("name a host or region")
	}
	in, err := l.named(names)
	if err != nil {
		return err
	}
	return l.reshape(func(p *path) (Link, bool) {
		if in[p.from] == in[p.to] {
			return p.Link, false
		}
		return change(p)
	})
}

// named returns the set of hosts that names stand for.
func (l *Lab) named(names []string) (map[int]bool, error) {
	set := map[int]bool{}
	if len(names) == 0 {
		for i := 1; i < len(l.hosts); i++ {
			set[i] = true
		}
	}
	for _, name := range names {
		found := false
		for i, h := range l.hosts {
			if h.Name == name || i > 0 && string(h.Region) == name {
				set[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("the lab has no host or region %q", name)
		}
	}
	return set, nil
}

// reshape changes all links for which change returns true, atomically.
func (l *Lab) reshape(change func(*path) (link Link, ok bool)) error {
	r := l.router
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	changed := map[*path]Link{}
	for i := range r.paths {
		p := &r.paths[i]
		link, ok := change(p)
		if !ok || p.from == p.to {
			continue
		}
		if err := link.validate(); err != nil {
			return fmt.Errorf("link from %s to %s: %w", p.From, p.To, err)
		}
		changed[p] = link
	}
	for p, link := range changed {
		r.reshape(p, link)
	}
	r.interrupt()
	return nil
}
