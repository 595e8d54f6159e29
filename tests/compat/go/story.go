package main

import (
	"context"
	"fmt"
	"sort"
	"time"
)

type story struct {
	ctx    context.Context
	client client
	topic  string
	group  string
	sent   [partitions]int64
}

func (s *story) tell() error {
	if err := s.client.create(s.topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	for _, step := range []func() error{s.consumeAll, s.readOn, s.share} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Waits until everything is committed: some clients do so in the background.
func (s *story) commits(what string) error {
	for {
		committed, err := s.client.committed(s.group, s.topic)
		if err != nil {
			return fmt.Errorf("%s: committed: %w", what, err)
		}
		if committed == s.sent {
			fmt.Printf("%s: committed up to the end\n", what)
			return nil
		}
		if s.ctx.Err() != nil {
			return fmt.Errorf("%s: committed %v of %v", what, committed, s.sent)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A new group begins at the beginning.
func (s *story) consumeAll() error {
	if err := s.send(10); err != nil {
		return err
	}
	return s.withMember("a new group", 10*partitions)
}

// After a restart it goes on where it stopped.
func (s *story) readOn() error {
	if err := s.send(2); err != nil {
		return err
	}
	return s.withMember("after a restart", 2*partitions)
}

// Two members share, and one that stays alone has everything.
func (s *story) share() error {
	first, err := s.client.join(s.group, s.topic)
	if err != nil {
		return err
	}
	if err := s.until("one member", []member{first}, []int{partitions}); err != nil {
		return err
	}
	second, err := s.client.join(s.group, s.topic)
	if err != nil {
		return err
	}
	if err := s.until("two members", []member{first, second}, []int{partitions / 2, partitions / 2}); err != nil {
		return err
	}
	if err := first.stop(); err != nil {
		return fmt.Errorf("the first member stops: %w", err)
	}
	if err := s.until("one is left", []member{second}, []int{partitions}); err != nil {
		return err
	}
	if err := s.commits("one is left"); err != nil {
		return err
	}
	return second.stop()
}

func (s *story) withMember(what string, count int) error {
	one, err := s.client.join(s.group, s.topic)
	if err != nil {
		return err
	}
	var offsets [partitions][]int64
	for received := 0; received < count; received++ {
		each, err := s.next(one)
		if err != nil {
			return fmt.Errorf("%s: %d records, then: %w", what, received, err)
		}
		if expected := fmt.Sprintf("%d/%d", each.partition, each.offset); each.value != expected {
			return fmt.Errorf("%s: %s instead of %s", what, each.value, expected)
		}
		offsets[each.partition] = append(offsets[each.partition], each.offset)
	}
	for partition, found := range offsets {
		sort.Slice(found, func(i, j int) bool { return found[i] < found[j] })
		fmt.Printf("%s: partition %d offsets %v\n", what, partition, found)
	}
	if err := s.commits(what); err != nil {
		return err
	}
	return one.stop()
}

// Sends rounds of a record for each partition until the members' shares are these.
func (s *story) until(what string, members []member, shares []int) error {
	for {
		if err := s.send(1); err != nil {
			return err
		}
		owned, err := s.round(members)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if fmt.Sprint(owned) == fmt.Sprint(shares) {
			fmt.Printf("%s: shares %v\n", what, owned)
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// How many of the newest records, one of each partition, came to each member. Older ones may come again.
func (s *story) round(members []member) ([]int, error) {
	missing := map[int]bool{}
	for partition := range partitions {
		missing[partition] = true
	}
	shares := make([]int, len(members))
	for len(missing) > 0 {
		each, index, err := s.any(members)
		if err != nil {
			return nil, err
		}
		if each.offset == s.sent[each.partition]-1 && missing[each.partition] {
			delete(missing, each.partition)
			shares[index]++
		}
	}
	return shares, nil
}

func (s *story) any(members []member) (record, int, error) {
	var other <-chan record
	if len(members) > 1 {
		other = members[1].records()
	}
	select {
	case each := <-members[0].records():
		return each, 0, nil
	case each := <-other:
		return each, 1, nil
	case <-s.ctx.Done():
		return record{}, 0, fmt.Errorf("nothing more came")
	}
}

func (s *story) next(one member) (record, error) {
	each, _, err := s.any([]member{one})
	return each, err
}

// So many to each partition; a value tells where its record must be.
func (s *story) send(count int) error {
	for partition := range partitions {
		values := make([]string, count)
		for i := range values {
			values[i] = fmt.Sprintf("%d/%d", partition, s.sent[partition]+int64(i))
		}
		if err := s.client.produce(s.topic, partition, values...); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		s.sent[partition] += int64(count)
	}
	return nil
}
