package main

import (
	"context"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Watermill is one of sarama's users. Topics and committed offsets are asked of sarama: watermill has no words for them.
type watermillClient struct {
	*saramaClient
	publisher *kafka.Publisher
}

// Puts a message into the partition that its metadata name.
type toPartition struct{ kafka.DefaultMarshaler }

func (m toPartition) Marshal(topic string, each *message.Message) (*sarama.ProducerMessage, error) {
	marshalled, err := m.DefaultMarshaler.Marshal(topic, each)
	if err != nil {
		return nil, err
	}
	partition, err := strconv.Atoi(each.Metadata.Get("partition"))
	marshalled.Partition = int32(partition)
	return marshalled, err
}

func newWatermill(bootstrap string) (client, error) {
	asked, err := newSarama(bootstrap)
	if err != nil {
		return nil, err
	}
	below := asked.(*saramaClient)
	config := kafka.DefaultSaramaSyncPublisherConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: below.brokers, Marshaler: toPartition{}, OverwriteSaramaConfig: config,
	}, watermill.NopLogger{})
	return &watermillClient{below, publisher}, err
}

func (c *watermillClient) produce(topic string, partition int, values ...string) error {
	messages := make([]*message.Message, len(values))
	for i, value := range values {
		messages[i] = message.NewMessage(watermill.NewUUID(), []byte(value))
		messages[i].Metadata.Set("partition", strconv.Itoa(partition))
	}
	return c.publisher.Publish(topic, messages...)
}

func (c *watermillClient) join(group, topic string) (member, error) {
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: c.brokers, Unmarshaler: kafka.DefaultMarshaler{}, ConsumerGroup: group, OverwriteSaramaConfig: config,
	}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	messages, err := subscriber.Subscribe(context.Background(), topic)
	if err != nil {
		return nil, err
	}
	one := &watermillMember{make(chan record), subscriber, make(chan struct{})}
	go one.run(messages)
	return one, nil
}

type watermillMember struct {
	found      chan record
	subscriber *kafka.Subscriber
	stopping   chan struct{}
}

func (m *watermillMember) run(messages <-chan *message.Message) {
	for each := range messages {
		partition, _ := kafka.MessagePartitionFromCtx(each.Context())
		offset, _ := kafka.MessagePartitionOffsetFromCtx(each.Context())
		select {
		case m.found <- record{int(partition), offset, string(each.Payload)}:
			each.Ack()
		case <-each.Context().Done(): // its partition goes to another member
			each.Nack()
		case <-m.stopping:
			each.Nack()
		}
	}
}

func (m *watermillMember) records() <-chan record { return m.found }

func (m *watermillMember) stop() error {
	close(m.stopping)
	return m.subscriber.Close()
}
