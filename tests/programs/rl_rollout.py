"""Reinforcement learning: a rollout under no_grad, then minibatches of it: 32 x 1.

8 environments for 16 steps make 128 samples, used in 4 epochs of 4 minibatches.
"""

import torch
from torch import nn
from torch.distributions import Categorical

NUM_ENVS, NUM_STEPS, MINIBATCH, EPOCHS = 8, 16, 32, 4
OBS, ACTIONS = 24, 4


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(OBS, 256), nn.Tanh(), nn.Linear(256, 1))
        self.actor = nn.Sequential(nn.Linear(OBS, 256), nn.Tanh(), nn.Linear(256, ACTIONS))

    def get_action_and_value(self, obs, action=None):
        probs = Categorical(logits=self.actor(obs))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(obs).squeeze(-1)


class Envs:
    """A drifting point to be held at the origin, eight of them side by side."""

    def reset(self):
        self.state = torch.randn(NUM_ENVS, OBS)
        return self.state

    def step(self, action):
        push = torch.nn.functional.one_hot(action, OBS).float() - 1.0 / ACTIONS
        self.state = 0.95 * self.state + 0.1 * push + 0.05 * torch.randn(NUM_ENVS, OBS)
        return self.state, -self.state.norm(dim=1)


torch.manual_seed(1)
agent, envs = Agent(), Envs()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
next_obs = envs.reset()

for _iteration in range(20_000):
    rows = []
    for _step in range(NUM_STEPS):
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
        obs, (next_obs, reward) = next_obs, envs.step(action)
        rows.append((obs, action, logprob, reward - value, reward))
    b_obs, b_act, b_logp, b_adv, b_ret = (torch.cat(c) for c in zip(*rows, strict=True))

    for _epoch in range(EPOCHS):
        for mb in torch.randperm(NUM_ENVS * NUM_STEPS).split(MINIBATCH):
            _, logp, entropy, value = agent.get_action_and_value(b_obs[mb], b_act[mb])
            ratio = (logp - b_logp[mb]).exp()
            adv = (b_adv[mb] - b_adv[mb].mean()) / (b_adv[mb].std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean()
            v_loss = 0.5 * (value - b_ret[mb]).square().mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
